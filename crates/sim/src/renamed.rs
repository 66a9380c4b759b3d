//! Names in results that were others in the version before: fields of JSON, counters of devices, metrics.
//!
//! One list for whoever types such a name: goals, bounds and metrics of sweeps take an old one for one version, with a note; Python refuses an
//! old field with the present one. What is printed has the present names alone: `cargo xtask words` holds the sources and documents to it.
//! Cost: a look through the list for each name.

/// Fields of JSON of schema 1, and where each is in schema 2.
pub const FIELDS: &[(&str, &str)] = &[
    ("span_ns", "duration_ns"),
    ("bytes_per_second", "total.bw_bytes"),
    ("iops", "total.iops"),
    ("all", "total"),
    ("reads", "read"),
    ("writes", "write"),
    ("others", "trim and flush"),
    ("all.requests", "total.total_ios"),
    ("all.bytes", "total.io_bytes"),
    ("all.failed", "total.failed_ios"),
    ("min_ns", "lat_ns.min"),
    ("mean_ns", "lat_ns.mean"),
    ("stddev_ns", "lat_ns.stddev"),
    ("max_ns", "lat_ns.max"),
    ("p50_ns", "lat_ns.percentile.50.000000"),
    ("p90_ns", "lat_ns.percentile.90.000000"),
    ("p95_ns", "lat_ns.percentile.95.000000"),
    ("p99_ns", "lat_ns.percentile.99.000000"),
    ("p99_9_ns", "lat_ns.percentile.99.900000"),
    ("p99_99_ns", "lat_ns.percentile.99.990000"),
    ("path_mean_ns", "latency_breakdown_ns"),
    ("path_total_ns", "latency_breakdown_total_ns"),
    ("waf_thousandths", "waf"),
    ("drive_waf_thousandths", "drive_waf"),
    ("jain_thousandths", "jain"),
    ("steady", "steady_state"),
    ("is_steady", "attained"),
    ("followed", "metric"),
    ("range_thousandths", "excursion"),
    ("slope_thousandths", "slope"),
    ("outstanding_max", "qdepth_max"),
    ("window_ns", "interval_ns"),
    ("windows", "intervals"),
    ("pace", "arrival"),
    ("warm_up_requests", "warmup_requests"),
    ("share_thousandths", "share"),
    ("wanted_thousandths", "wanted"),
    ("error_thousandths", "error"),
    ("years_thousandths", "years"),
    ("host_bytes", "tbw_bytes"),
    ("erases_per_block_thousandths", "erases_per_block"),
    ("spread_thousandths", "spread"),
    ("missed_by_thousandths", "missed_by"),
    ("cost_thousandths", "cost"),
    ("cost_from_thousandths", "cost_from"),
    ("cost_to_thousandths", "cost_to"),
    ("lifetime_years_thousandths", "lifetime_years"),
    ("runs_thousandths", "runs"),
    ("slowest_hundredth_thousandths", "slowest_hundredth"),
    ("spare_factor_thousandths", "spare_factor"),
    ("over_provisioning_thousandths", "over_provisioning"),
    ("least", "min"),
    ("most", "max"),
    ("impossible", "invalid"),
    ("plant", "injected_bug"),
    ("plants", "bugs"),
    ("fault", "name"),
    ("latency_ns_mean", "latency_mean_ns"),
    ("latency_ns_max", "latency_max_ns"),
    ("upkeep", "maintenance"),
];

/// Counters of devices.
pub const COUNTERS: &[(&str, &str)] = &[
    ("gc_blocks_cleared", "gc_blocks_collected"),
    ("map_gc_blocks_cleared", "map_gc_blocks_collected"),
    ("gc_clears_forced", "gc_foreground_collections"),
    ("blocks_levelled", "wl_blocks_relocated"),
    ("blocks_levelled_across_tenants", "wl_blocks_relocated_across_tenants"),
    ("block_erases_least", "erase_count_min"),
    ("block_erases_most", "erase_count_max"),
    ("pages_read_before_write", "rmw_page_reads"),
    ("write_held_longest_ns", "write_stall_max_ns"),
    ("writes_held", "write_stalls"),
    ("writes_held_ns", "write_stall_ns"),
    ("map_hits", "cmt_hits"),
    ("map_misses", "cmt_misses"),
    ("map_cache_slots", "cmt_slots"),
    ("map_evictions_written", "cmt_evictions_written"),
    ("map_blocks_gathered", "map_blocks_converted"),
    ("map_pages_gathered", "map_pages_converted"),
    ("map_gatherings_given_up", "map_conversions_given_up"),
    ("map_gatherings_without_room", "map_conversions_without_room"),
    ("map_entries_a_scan_visits", "map_entries_per_scan"),
    ("prefetched_blocks_unmet", "prefetch_unused_blocks"),
    ("holes_met", "partial_hits"),
    ("joined_misses", "merged_misses"),
    ("spoiled_blocks", "fills_invalidated"),
    ("solos", "degraded_transitions"),
    ("planned_swaps", "leader_changes"),
    ("sectors_mended", "sectors_repaired"),
    ("records_mended", "records_repaired"),
    ("headers_mended", "headers_repaired"),
    ("scrub_mended_bytes", "scrub_repaired_bytes"),
    ("legs_taken_in", "legs_joined"),
    ("dirty_blocks_most", "dirty_blocks_max"),
    ("pages_moved_for_a_demand_most", "demand_pages_moved_max"),
    ("anticipations_met", "anticipation_hits"),
    ("seek_us", "seek_ns"),
    ("transfer_us", "transfer_ns"),
    ("idle_us", "idle_ns"),
    ("low_power_idle_us", "low_power_idle_ns"),
    ("standby_us", "standby_ns"),
    ("power_transition_us", "power_transition_ns"),
    ("energy_mj", "energy_nj"),
    ("operations_energy_uj", "operations_energy_nj"),
];

/// Metrics of whole stacks.
pub const METRICS: &[(&str, &str)] = &[("span", "duration")];

/// Where the field `old` of schema 1 is now; nothing where it has its name.
pub fn field(old: &str) -> Option<&'static str> {
    FIELDS.iter().find(|(was, _)| *was == old).map(|(_, new)| *new)
}

/// The first old name of a metric in `text`, a metric, a goal or a bound, and the present one: that of a whole stack, or of a counter behind
/// the name of its device.
pub fn metric(text: &str) -> Option<(&'static str, &'static str)> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let words = || text.split(|c| !part(c));
    let plain = METRICS.iter().find(|(old, _)| words().any(|word| word == *old));
    let counted = || {
        let behind = |word: &str| word.rsplit_once('.').map(|(_, name)| name.to_string());
        COUNTERS.iter().find(|(old, _)| words().filter_map(behind).any(|name| name == *old))
    };
    plain.or_else(counted).copied()
}

/// `text` with the present names in place of old ones, and the pairs.
pub fn present(text: &str) -> (String, Vec<(&'static str, &'static str)>) {
    let (mut text, mut pairs) = (text.to_string(), Vec::new());
    while let Some((old, new)) = metric(&text) {
        // The name stands last in its word: nothing before it in the text is called so but a device.
        let at = text.rfind(old).unwrap_or_default();
        text.replace_range(at..at + old.len(), new);
        pairs.push((old, new));
    }
    (text, pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_metric_is_read_as_the_present_one() {
        let of = |text: &str| present(text).0;
        assert_eq!(of("minimise span"), "minimise duration");
        assert_eq!(of("span<=1 s"), "duration<=1 s");
        assert_eq!(of("ssd.map_hits >= 5"), "ssd.cmt_hits >= 5");
        assert_eq!(of("map_hits.map_hits"), "map_hits.cmt_hits");
        assert_eq!(present("disk.energy_mj").1, [("energy_mj", "energy_nj")]);
        for present_name in
            ["duration", "p99.9<=1 ms", "span.mean", "timespan", "ssd.map_hits_now", "map_hits"]
        {
            assert_eq!(present(present_name), (present_name.into(), Vec::new()));
        }
    }

    #[test]
    fn no_present_name_of_a_metric_is_an_old_one() {
        for (_, new) in COUNTERS.iter().chain(METRICS) {
            assert!(COUNTERS.iter().chain(METRICS).all(|(old, _)| old != new), "{new}");
        }
        assert_eq!((field("all"), field("total")), (Some("total"), None));
    }
}

//! What holds for every scheduler: nobody is forgotten, and those who share by cost share by weight whatever they ask for.

use super::rig::{Load, Rig, in_proportion};
use super::*;
use crate::cost::CostConfig;
use crate::order::OrderConfig;
use nandu_base::Span;
use proptest::prelude::*;

fn loads() -> impl Strategy<Value = Vec<Load>> {
    let one = (1u32..40, any::<bool>(), 1u64..9, 0u64..400);
    prop::collection::vec(one, 1..4).prop_map(|loads| {
        loads
            .into_iter()
            .map(|(outstanding, read, pages, think)| {
                let load = if read { Load::reads(outstanding) } else { Load::writes(outstanding) };
                load.of(pages * 4096).thinking(Span::from_us(think))
            })
            .collect()
    })
}

/// Requests that a run serves.
const SERVED: u64 = 20_000;

/// Requests that tenant `at` gets of those that a run serves, where all share by weight and always ask.
fn part_by_weight(at: usize, weights: &[u16], loads: &[Load]) -> u64 {
    let rate = |(&weight, load): (&u16, &Load)| {
        f64::from(weight) / CostConfig::default().of(load.class, load.len).0 as f64
    };
    let rates: Vec<f64> = weights.iter().zip(loads).map(rate).collect();
    (SERVED as f64 * rates[at] / rates.iter().sum::<f64>()) as u64
}

/// Runs `loads` and checks what the rig does not check at each step: each tenant gets all that it asked for at first, or half of its
/// part by weight where that is less.
fn serves<S: Scheduler>(
    scheduler: S,
    weights: &[u16],
    depth: u32,
    loads: &[Load],
) -> Result<(), TestCaseError> {
    let mut rig = Rig::new(scheduler, weights).depth(depth);
    rig.run(loads, SERVED);
    for (at, load) in loads.iter().enumerate() {
        let sent = rig.sent.iter().filter(|s| usize::from(s.0) == at + 1).count() as u64;
        let least = (part_by_weight(at, weights, loads) / 2).clamp(1, load.outstanding.into());
        let tenant = at + 1;
        prop_assert!(sent >= least, "tenant {tenant} was served {sent} times in {SERVED}, {least} wanted");
    }
    Ok(())
}

/// A writer of 32 KiB beside a reader with seventeen times its weight: 18 of 20,000 requests are its part.
#[test]
fn a_part_by_weight_may_be_less_than_what_waits() {
    let loads = [Load::writes(20).of(32_768), Load::reads(1)];
    let weights = || Weights(vec![100, 100, 1732]);
    assert_eq!(part_by_weight(0, &[100, 1732], &loads), 18);
    serves(Fios::new(FiosConfig::default(), weights()), &[100, 1732], 1, &loads).unwrap();
    serves(Drr::new(DrrConfig::default(), weights(), OrderConfig::Fifo), &[100, 1732], 1, &loads).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn nobody_is_forgotten(loads in loads(), weight in 20u16..2000, depth in 1u32..20, pick in 0usize..4) {
        let weights = &[100, weight, 100][..loads.len()];
        let all = || Weights([&[100], weights].concat());
        let tenants = weights.len() + 1;
        let unit = nandu_base::ByteLen::kib(64);
        let order = [
            OrderConfig::Fifo,
            OrderConfig::ReadsFirst { max_read_bypass: u32::MAX },
            OrderConfig::Bp { erase_unit: unit, bundle_max: 8 },
            OrderConfig::IrbwFifo { erase_unit: unit, bundle_max: 8, reads_first: false },
        ][pick];
        // `reads-first` starves writers by design where there is one queue.
        let one_queue = if pick == 1 { OrderConfig::Fifo } else { order };
        serves(Noop::new(one_queue), weights, depth, &loads)?;
        serves(Deadline::new(DeadlineConfig::default()), weights, depth, &loads)?;
        let batches = AnticipatoryConfig {
            read_batch: Span::from_ms(5),
            write_batch: Span::from_ms(5),
            read_expire: Span::from_ms(5),
            ..AnticipatoryConfig::default()
        };
        serves(Anticipatory::new(batches, tenants), weights, 1, &loads)?;
        let slices = CfqConfig {
            slice_sync: Some(Span::from_ms(2)),
            slice_async: Some(Span::from_ms(1)),
            ..CfqConfig::default()
        };
        serves(Cfq::new(slices, all(), OrderConfig::Fifo), weights, depth, &loads)?;
        serves(Cfq::new(CfqConfig { slices: Slices::Slo, ..slices }, all(), order), weights, depth, &loads)?;
        serves(Cffq::new(CffqConfig { slice: Some(Span::from_ms(2)) }, all(), order), weights, depth, &loads)?;
        serves(Fios::new(FiosConfig::default(), all()), weights, depth, &loads)?;
        serves(FlashFq::new(FlashFqConfig::default(), all(), order), weights, depth, &loads)?;
        serves(Vssd::new(VssdConfig::default(), all()), weights, depth, &loads)?;
        serves(Drr::new(DrrConfig::default(), all(), order), weights, depth, &loads)?;
    }

    /// Against the fluid model, in which each tenant has its weight's part of the service at every moment.
    #[test]
    fn cost_goes_by_weight(weights in prop::collection::vec(20u16..1000, 2..4), pages in 1u64..9) {
        let all = || Weights([&[100], &weights[..]].concat());
        let mut loads = [Load::reads(64), Load::writes(64).of(pages * 4096), Load::reads(64).of(pages * 4096)];
        loads[1].outstanding = 128;
        let loads = &loads[..weights.len()];
        let wanted: Vec<u64> = weights.iter().map(|&w| u64::from(w)).collect();
        let check = |name: &str, shares: Vec<u64>| {
            prop_assert!(in_proportion(&shares, &wanted, 8), "{name}: {shares:?} for {wanted:?}");
            Ok(())
        };
        let n = 60_000;
        check("drr", Rig::new(Drr::new(DrrConfig::default(), all(), OrderConfig::Fifo), &weights).run(loads, n))?;
        check("fios", Rig::new(Fios::new(FiosConfig::default(), all()), &weights).run(loads, n))?;
        let flashfq = FlashFq::new(FlashFqConfig::default(), all(), OrderConfig::Fifo);
        check("flashfq", Rig::new(flashfq, &weights).run(loads, n))?;
    }
}

/// Once 40,000 requests are served the weights are exchanged: from there on the shares are.
#[test]
fn a_weight_that_changes_changes_the_share() {
    fn exchanged<S: Scheduler>(name: &str, scheduler: S, outstanding: u32, percent: u64) {
        let mut rig = Rig::new(scheduler, &[100, 300]).depth(8).then(&[300, 100], 40_000);
        let shares = rig.run(&[Load::reads(outstanding), Load::writes(outstanding)], 140_000);
        assert!(in_proportion(&shares, &[3, 1], percent), "{name}: {shares:?}");
    }
    let weights = || Weights(vec![100, 100, 300]);
    exchanged("drr", Drr::new(DrrConfig::default(), weights(), OrderConfig::Fifo), 32, 2);
    exchanged("flashfq", FlashFq::new(FlashFqConfig::default(), weights(), OrderConfig::Fifo), 32, 2);
    exchanged("fios", Fios::new(FiosConfig::default(), weights()), 32, 3);
    // Credits that what waits at a channel can use up.
    let credits = VssdConfig { channel_depth: 1, credits: Span::from_us(400), ..VssdConfig::default() };
    exchanged("vssd", Vssd::new(credits, weights()), 512, 5);
    // Slices so short that there are many of them, and so long that the last requests of one matter little.
    let slice = Some(Span::from_ms(20));
    exchanged("cffq", Cffq::new(CffqConfig { slice }, weights(), OrderConfig::Fifo), 32, 10);
    let slo = CfqConfig { slices: Slices::Slo, slice_sync: slice, ..CfqConfig::default() };
    exchanged("cfq", Cfq::new(slo, weights(), OrderConfig::Fifo), 32, 10);
}

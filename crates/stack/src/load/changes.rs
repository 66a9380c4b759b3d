//! `[change.NAME]`: what changes about tenants while a workload runs, and when.
//!
//! Changes of weights and limits build upon each other in the order of their times: each is kept as the whole share that holds from then on.

use super::tables::Max;
use super::{Found, Loader, Node, section};
use crate::stack::{Change, Changed};
use nandu_base::{ByteLen, Deal, Span, TenantId, TenantShare};
use schemars::JsonSchema;
use serde::Deserialize;

/// `[change.NAME]`: something about tenants that changes while workloads run. It names either a `tenant`, whose weight and limits change, or a
/// `device` and what happens to the space of its tenants. A server ignores it: there the control socket changes things.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeTable {
    /// What it is, in words.
    pub description: Option<String>,
    /// When it happens, counted from the first request.
    pub at: Span,
    /// Whose weight or limits change.
    pub tenant: Option<String>,
    /// The weight from then on. Default: as before. From 1 to 10000.
    #[schemars(range(min = 1, max = 10_000))]
    pub weight: Option<u16>,
    /// The limits from then on, all of them: one that is not given no longer applies. Default: as before.
    pub max: Option<Max>,
    /// The latency that it wants to stay below from then on. Default: as before.
    pub target_latency: Option<Span>,
    /// The drive whose tenants change (it needs `max_tenants`).
    pub device: Option<String>,
    /// A tenant comes, with so much space.
    pub add: Option<ByteLen>,
    /// The tenant with this number has `size` from then on.
    #[schemars(range(min = 1))]
    pub resize: Option<u32>,
    /// Space, with `resize`.
    pub size: Option<ByteLen>,
    /// The tenant with this number goes.
    #[schemars(range(min = 1))]
    pub remove: Option<u32>,
}

impl ChangeTable {
    /// What happens to the space of a device's tenants.
    fn deal(&self) -> Option<Deal> {
        match (self.add, self.resize, self.size, self.remove) {
            (Some(size), None, None, None) => Some(Deal::Add { size }),
            (None, Some(number), Some(size), None) => Some(Deal::Resize { number, size }),
            (None, None, None, Some(number)) => Some(Deal::Remove { number }),
            _ => None,
        }
    }

    fn changes_space(&self) -> bool {
        self.add.is_some() || self.resize.is_some() || self.size.is_some() || self.remove.is_some()
    }

    fn changes_share(&self) -> bool {
        self.weight.is_some() || self.max.is_some() || self.target_latency.is_some()
    }

    fn apply(&self, share: &mut TenantShare) {
        share.weight = self.weight.unwrap_or(share.weight);
        if let Some(max) = &self.max {
            (share.rbps, share.wbps) = (max.rbps.map(|b| b.0), max.wbps.map(|b| b.0));
            (share.riops, share.wiops) = (max.riops, max.wiops);
        }
        share.target_latency = self.target_latency.or(share.target_latency);
    }
}

impl Loader<'_> {
    /// The changes in the order of their times; `shares` has what each tenant may ask for at the start, SYSTEM first. Devices are numbered
    /// by their place in `devices`.
    pub(super) fn changes(
        &mut self,
        root: &Node,
        tables: &[(String, ChangeTable)],
        mut shares: Vec<TenantShare>,
        devices: &[Found<'_>],
    ) -> Vec<Change> {
        let mut entries: Vec<_> = tables.iter().zip(section(root, "change")).collect();
        entries.sort_by_key(|((_, table), _)| table.at);
        let mut changes = Vec::new();
        for ((name, table), entry) in entries {
            let place = format!("change `{name}`");
            let what = match (&table.tenant, &table.device) {
                (Some(tenant), None) if table.changes_share() && !table.changes_space() => {
                    let Some(at) = shares.iter().skip(1).position(|share| share.name == *tenant) else {
                        let known = shares.iter().skip(1).map(|share| share.name.clone()).collect();
                        self.unknown(entry.origin, "tenant", tenant, known);
                        continue;
                    };
                    table.apply(&mut shares[at + 1]);
                    if let Some(flaw) = shares[at + 1].flaw() {
                        self.bad_value(entry.origin, "max", &place, &flaw);
                    }
                    Changed::Share(TenantId((at + 1) as u16), shares[at + 1].clone())
                }
                (None, Some(device)) if !table.changes_share() => {
                    let found = devices.iter().position(|found| found.name == device);
                    let (Some(at), Some(deal)) = (found, table.deal()) else {
                        match found {
                            None => {
                                let known = devices.iter().map(|found| found.name.into()).collect();
                                self.unknown(entry.origin, "device", device, known);
                            }
                            Some(_) => {
                                let message = "give one of `add`, `resize` with `size`, and `remove`";
                                self.bad_value(entry.origin, "device", &place, message);
                            }
                        }
                        continue;
                    };
                    if devices[at].entry.node.entry("max_tenants").is_none() {
                        let message = format!(
                            "`{device}` deals no space out while it runs; a drive with `max_tenants` does"
                        );
                        self.bad_value(entry.origin, "device", &place, &message);
                        continue;
                    }
                    Changed::Space(at as u32, deal)
                }
                _ => {
                    let message = "a change names a `tenant` with `weight`, `max` or `target_latency`, or a `device` with `add`, `resize` \
                                   or `remove`";
                    self.bad_value(entry.origin, "tenant", &place, message);
                    continue;
                }
            };
            changes.push(Change { name: name.clone(), at: table.at, what });
        }
        changes
    }
}

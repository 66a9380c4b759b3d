//! Options of an SSD that would act on nothing beside the others of the same drive. They are refused where they are not what they are by default.

use super::{GcConfig, SsdConfig};
use nandu_base::BuildError;
use nandu_ftl::isolation::Gives;
use nandu_ftl::trim_journal::RECORDS_MAX;

impl SsdConfig {
    /// Refuses what would act on nothing, once [`check_tenants`](SsdConfig::check_tenants) has passed.
    pub(super) fn check_unused(&self) -> Result<(), BuildError> {
        let refuse = |key, why: &str| Err(BuildError::at(key, why));
        let (usual, isolation) = (GcConfig::default(), self.isolation.made());
        let returns = isolation.returns_while_idle().is_some();
        let collects = self.gc.idle_free_target.is_some() || returns;
        if self.gc.idle_after != usual.idle_after && !collects && !self.folds_while_idle() {
            let why = "an idle drive has nothing to do: give `gc.idle_free_target` too, or `slc_cache` with `fold_idle`, or `isolation.return_pool_below`, or leave it out";
            return refuse("gc.idle_after", why);
        }
        if self.gc.idle_min_invalid != usual.idle_min_invalid && !collects {
            let why = "an idle drive clears no block: give `gc.idle_free_target` too, or `isolation.return_pool_below`, or leave it out";
            return refuse("gc.idle_min_invalid", why);
        }
        self.wear.check()?;
        self.check_suspension()?;
        let has_units = self.isolation.gives() == Gives::Units && self.mapping.log_block().is_none();
        if self.wear.across_tenants && !has_units {
            let why = "it is for tenants that have units of the same planes, as with `isolation = { kind = \"vssd\" }` and a map that is not a log-block map: leave it out";
            return refuse("wear.across_tenants", why);
        }
        if self.tenant_gc_threshold.is_some_and(|share| share.num > 0) && !has_units {
            let why = "it is a share of the units that a tenant has of the same planes as others, as with `isolation = { kind = \"vssd\" }` and a map that is not a log-block map: leave it out, or 0";
            return refuse("tenant_gc_threshold", why);
        }
        if let Some(tenant) = self.tenants.iter().find(|tenant| tenant.weight != 1 && !isolation.weighs()) {
            let why = format!(
                "`{}` has a weight in the spare units, and with isolation `{}` these do not go by weight: leave it out, or take `ops`",
                tenant.name,
                self.isolation.name()
            );
            return refuse("tenants", &why);
        }
        if self.trim_records != RECORDS_MAX as u32 && self.mapping.log_block().is_some() {
            let why =
                "a log-block map marks trimmed pages one by one and keeps no records of trims: leave it out";
            return refuse("trim_records", why);
        }
        Ok(())
    }
}

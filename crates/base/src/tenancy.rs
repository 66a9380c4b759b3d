//! What changes about tenants while a stack runs.
//!
//! Two things change. *What a tenant may ask for* (its weight and limits, [`TenantShare`]) stands once for the whole stack: every
//! machine hears of it ([`Administer::share_changed`](crate::Administer::share_changed)). *The space that tenants have inside a device*
//! is that device's own affair: a [`Deal`] goes to one machine ([`Administer::deal`](crate::Administer::deal)), which answers when
//! the change holds whatever happens.
//!
//! Tenants of a device have numbers from 1, as namespaces of a drive do. A number that is free again is given to the next one.

use crate::registry::TenantShare;
use crate::units::{ByteLen, ByteOffset, Instant};

/// A change of the space that tenants have inside a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deal {
    /// A tenant comes, with so much space.
    Add {
        /// Its logical space.
        size: ByteLen,
    },
    /// A tenant has so much space from here on. What lay behind the new end is gone.
    Resize {
        /// Which.
        number: u32,
        /// Its logical space.
        size: ByteLen,
    },
    /// A tenant goes, with all it had.
    Remove {
        /// Which.
        number: u32,
    },
}

/// What came of a [`Deal`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dealt {
    /// The tenant.
    pub number: u32,
    /// From when on it holds, power cuts included. What is asked before waits until then.
    pub holds_at: Instant,
}

/// A tenant's space inside a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TenantSpace {
    /// Its number, from 1.
    pub number: u32,
    /// Where it begins.
    pub first: ByteOffset,
    /// How much it is.
    pub size: ByteLen,
}

/// Why a deal was not made; nothing has changed then, except that an earlier one which a power cut had interrupted may be complete.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DealError {
    /// This device deals no space out while it runs.
    #[error("it has no tenants that come and go while it runs; for a drive see `max_tenants`")]
    Fixed,
    /// There is no such tenant.
    #[error("it has no tenant {number}; there are: {known}")]
    Unknown {
        /// The number asked for.
        number: u32,
        /// Those that there are.
        known: String,
    },
    /// It cannot be done.
    #[error("{why}; {remedy}")]
    Refused {
        /// Why.
        why: String,
        /// What would help.
        remedy: String,
    },
}

impl TenantShare {
    /// What is wrong with it, if anything is.
    pub fn flaw(&self) -> Option<String> {
        if !(1..=10_000).contains(&self.weight) {
            return Some(format!("a weight of {} is not within 1 to 10000", self.weight));
        }
        let rates = [("rbps", self.rbps), ("wbps", self.wbps), ("riops", self.riops), ("wiops", self.wiops)];
        let zero = rates.iter().find(|(_, rate)| *rate == Some(0));
        zero.map(|(name, _)| format!("with {name} = 0 it could never do anything"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_could_do_nothing_is_named() {
        let share = TenantShare::named("a");
        assert_eq!(share.flaw(), None);
        assert!(TenantShare { weight: 0, ..share.clone() }.flaw().unwrap().contains("1 to 10000"));
        assert!(TenantShare { wiops: Some(0), ..share }.flaw().unwrap().contains("wiops"));
    }
}

//! Who is copied up: which pages that are read from the disk or a lower ring go to the top ring. One file each, one trait, one line in
//! [`POLICIES`]. The type of its options declares a rule: see [`PromotionOptions`].

mod always;
mod hot;
mod never;
mod second_touch;
mod touches;

pub use always::{Always, AlwaysConfig};
pub use hot::{Hot, HotConfig};
pub use never::{Never, NeverConfig};
pub use second_touch::{SecondTouch, SecondTouchConfig};
pub use touches::Touches;

use nandu_base::options::Options;
use nandu_base::{BuildError, Chosen, Declared, Family, Policy, ReadOptions};
use std::fmt::Debug;

/// A rule of promotion. Pages are those of the device, numbered from 0.
pub trait Promotion: Send {
    /// Whether `page`, which was read from below, is copied to the top ring.
    fn admits(&mut self, page: u32) -> bool;

    /// `page` is used, and is not there to be copied: that counts as a read from below.
    fn touched(&mut self, _page: u32) {}
}

/// Which pages that are read go to the top ring, by name and options.
pub type PromotionConfig = Chosen<Promotions>;

/// The family.
pub struct Promotions;

impl Family for Promotions {
    const NAME: &'static str = "promotion";
    const SCHEMA: &'static str = "Promote";
    const SUMMARY: &'static str =
        "Which pages that are read from the disk or a lower ring are copied to the top ring.";
    type Options = dyn AnyPromotion;

    fn builtin() -> &'static [Policy] {
        POLICIES
    }
}

/// The rules of this crate.
pub static POLICIES: &[Policy] = &[
    policy::<AlwaysConfig>(),
    policy::<SecondTouchConfig>(),
    policy::<NeverConfig>(),
    policy::<HotConfig>(),
];

/// The rule whose options are `C`, for a registry.
pub const fn policy<C: PromotionOptions>() -> Policy {
    let read: &'static ReadOptions<Promotions> =
        &const { &|table| Ok(std::sync::Arc::new(C::deserialize(table)?)) };
    Policy::new::<Promotions, C>(read)
}

/// The options of a rule of promotion: what its file declares.
pub trait PromotionOptions: Declared {
    /// The rule.
    type Policy: Promotion + 'static;

    /// The rule for rings of `slots` pages, at least one.
    ///
    /// # Errors
    /// Options that do not suit each other, as `promote.KEY`.
    fn build(&self, slots: usize) -> Result<Self::Policy, BuildError>;
}

/// Options of any rule of promotion.
pub trait AnyPromotion: Options + Debug + Send + Sync {
    /// See [`PromotionOptions::build`].
    fn boxed(&self, slots: usize) -> Result<Box<dyn Promotion>, BuildError>;
}

impl<C: PromotionOptions> AnyPromotion for C {
    fn boxed(&self, slots: usize) -> Result<Box<dyn Promotion>, BuildError> {
        Ok(Box::new(self.build(slots)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(name: &str, options: &str, pages: &[u32]) -> Vec<bool> {
        let table = options.parse().expect("options are a table");
        let chosen = PromotionConfig::new(name, table).expect("options of a rule");
        let mut rule = chosen.options().and_then(|options| options.boxed(10)).expect("one of ours");
        pages.iter().map(|&page| rule.admits(page)).collect()
    }

    #[test]
    fn a_page_is_admitted_at_its_nth_read_from_below() {
        assert_eq!(admitted("second-touch", "", &[3, 3, 3, 3]), [false, true, false, true]);
        let hot = admitted("hot", "hits = 3", &[3, 3, 4, 3, 4, 3]);
        assert_eq!(hot, [false, false, false, true, false, false]);
        assert_eq!(admitted("second-touch", "", &[3, 13, 3]), [false; 3], "13 takes the entry of 3");
        assert_eq!(admitted("never", "", &[3, 3]), [false; 2]);
        assert_eq!(admitted("always", "", &[3]), [true]);
    }

    #[test]
    fn a_use_of_a_page_that_has_left_counts() {
        let mut rule = SecondTouchConfig {}.build(10).expect("it has no options");
        rule.touched(4);
        assert!(rule.admits(4) && !rule.admits(4));
    }
}

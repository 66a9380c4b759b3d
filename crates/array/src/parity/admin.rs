//! What an operator asks for, and what an operator is told. The words are those of the mirror ([`crate::mirror`]).
//!
//! **Scrub.** See [`super::scrub`].
//!
//! **Replace.** The leg is left out as if it had failed, and what comes in its place must hold no records: it is rebuilt from the
//! front, at `rebuild_rate`. It is refused where the others cannot make up for it: one of them is missing or not rebuilt, the
//! parity is not computed, or they have lost sectors of their own. A leg that was replaced is never believed again: the others
//! took a generation that it does not know. A start that finds it in its old place is refused as long as the new one counts as
//! current.
//!
//! **Health.** Said to the parents and to the driver whenever it changes.

use super::{Parity, Run};
use crate::member::set::{Set, refuse};
use nandu_base::{Admin, AdminError, Cx};

impl Parity {
    pub(super) fn obey(&mut self, admin: Admin, cx: &mut Cx<'_>) -> Result<(), AdminError> {
        if matches!(admin, Admin::Lead(_)) {
            return Err(AdminError::Unknown); // no leg leads here
        }
        if self.run != Run::Running {
            return refuse("too few legs are there", "bring back the legs that were used last");
        }
        if self.growing.is_on() {
            return refuse("it is growing", "wait until that is over");
        }
        match self.maintain(admin, cx)? {
            None => Ok(()),
            Some(Admin::Extend(_)) => refuse(
                "a parity array keeps the number of its legs: each row is made of all of them",
                "make a larger one beside it, and copy",
            ),
            Some(Admin::Grow { is_equal }) => self.ask_grow(is_equal, cx),
            Some(_) => Err(AdminError::Unknown),
        }
    }
}

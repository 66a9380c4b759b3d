//! A stack file on the [test kit](nandu_graph::testkit).

use crate::load::{StackError, StackFile};
use crate::stack::BuildOptions;
use nandu_base::Registry;
use nandu_graph::testkit::{Bed, Machines};
use std::ops::{Deref, DerefMut};

pub use nandu_graph::testkit::{Done, Media};

/// A stack in operation on a virtual clock: a [`Bed`] of what a stack file describes.
pub struct Testbed(Bed);

impl Testbed {
    /// Loads, builds and opens the stack of `text`. Panics when a machine does not open.
    ///
    /// # Errors
    /// What is wrong with the stack file.
    pub fn new(text: &str, registry: &Registry, options: BuildOptions) -> Result<Testbed, StackError> {
        let stack = StackFile::parse(text, "test.toml")?.load(registry)?;
        let BuildOptions { seed, .. } = options;
        let build = move |seed| {
            let built = stack.build(&BuildOptions { seed, ..options.clone() })?;
            let exports = built.exports.iter().map(|export| (export.node, export.tenant)).collect();
            let tenants = built.tenants.len() + 1;
            Ok(Machines { parts: built.into_parts(|_, _| None), exports, tenants })
        };
        Bed::new(seed, build).map(Testbed)
    }
}

impl Deref for Testbed {
    type Target = Bed;

    fn deref(&self) -> &Bed {
        &self.0
    }
}

impl DerefMut for Testbed {
    fn deref_mut(&mut self) -> &mut Bed {
        &mut self.0
    }
}

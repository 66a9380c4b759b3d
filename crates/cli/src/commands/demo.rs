//! `nandu demo`: built-in stacks on a built-in load.
use crate::args::DemoArgs;
use crate::failure::Failure;
use crate::talk::Talk;

/// Races the built-in examples.
pub fn demo(args: &DemoArgs, talk: Talk) -> Result<(), Failure> {
    let _ = (args, talk);
    Ok(())
}

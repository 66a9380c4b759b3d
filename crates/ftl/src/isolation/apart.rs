//! `none`, `channel` and `die`: all that tenants share, or nothing of it, as the geometry has it.
//!
//! *None*: one pool of blocks; whose a page is decides nothing. *Channel* and *die* are the hardware isolation of open-channel
//! drives (Huang et al., "FlashBlox", FAST 2017): each tenant has whole channels or dies, as large a part of them as its
//! space is of the drive's logical space, at least one, and those that are left belong to nobody. What is busy for one is
//! never busy for another, but for the channel, which dies of `die` share. One tenant has no more parallelism than its part.
//!
//! There are no units to deal out or to lend, so there is no policy to ask. Cost: none per request.

use super::{Given, Gives, Isolation, IsolationOptions, Vssd};
use nandu_base::{Declared, options};

/// Options of `none`.
#[options]
#[derive(Clone, Copy, Debug)]
pub struct NoneConfig {}

/// Options of `channel`.
#[options]
#[derive(Clone, Copy, Debug)]
pub struct ChannelConfig {}

/// Options of `die`.
#[options]
#[derive(Clone, Copy, Debug)]
pub struct DieConfig {}

impl Declared for NoneConfig {
    const NAME: &'static str = "none";
    const SUMMARY: &'static str = "Not at all: one pool of blocks for all.";
    const SOURCE: &'static str = "";
}

impl Declared for ChannelConfig {
    const NAME: &'static str = "channel";
    const SUMMARY: &'static str = "Each has channels of its own, in proportion to its space.";
    const SOURCE: &'static str = "Huang et al., FlashBlox, FAST 2017";
}

impl Declared for DieConfig {
    const NAME: &'static str = "die";
    const SUMMARY: &'static str = "Each has dies of its own, in proportion to its space.";
    const SOURCE: &'static str = "Huang et al., FlashBlox, FAST 2017";
}

impl IsolationOptions for NoneConfig {
    fn gives(&self) -> Gives {
        Gives::Nothing
    }

    fn build(&self, _: Given) -> Box<dyn Isolation> {
        Box::new(Vssd)
    }
}

impl IsolationOptions for ChannelConfig {
    fn gives(&self) -> Gives {
        Gives::Channels
    }

    fn build(&self, _: Given) -> Box<dyn Isolation> {
        Box::new(Vssd)
    }
}

impl IsolationOptions for DieConfig {
    fn gives(&self) -> Gives {
        Gives::Dies
    }

    fn build(&self, _: Given) -> Box<dyn Isolation> {
        Box::new(Vssd)
    }
}

//! `vssd`: credits over channel queues.
//!
//! Each channel of the drive has a queue for each tenant. A tenant whose turn it is at a channel sends there while it has
//! credits for it; then the turn passes on. When no tenant that waits at a channel has credits left for it, everybody's
//! credits there are renewed. So tenants meet their fair share at every channel, and one that floods a channel does not
//! delay others at the rest. At most `channel_depth` requests are on their way to a channel.
//!
//! Source: Chang, Chen, Su, "VSSD: performance isolation in a solid-state drive", ACM TODAES 20(4), 2015, whose scheduler is
//! called FACO. The article itself was not at hand: the rule is that of section II of the isolation paper (B3-3), credits in
//! the order of turns, work until none is left. How many credits there are is not said there. A credit is cost here, and
//! not a request, so that large requests do not win.
//!
//! *Why credits are few.* Turns of different channels do not agree. While a tenant has its turn at one channel and another has
//! it at the next, what the first asks for there piles up until all it may have outstanding lies at the channel that does not
//! serve it; the other then takes both. With credits worth many more requests than a tenant keeps outstanding that costs a
//! share: in stacks/served-tenants.toml with cost in bytes, 64 outstanding, 73.3 to 76.1 % (four seeds) with turns of 488
//! requests at weight 100, 74.7 to 75.1 % with turns of 24. So the default is two reads, as with `drr`.
//!
//! Where a request will be served is asked of the device below (`locate`). Where it does not know, as for a page not yet
//! written, the channel is that of the address striped over `channels`.
//!
//! Cost: O(channels) for a request, and the tenants that wait at its channel; renewals are counted and entered when they matter. RAM: 16
//! bytes and a bit for each channel and tenant.

use super::{Given, Next, Scheduler, SchedulerOptions, Weights};
use crate::pending::{Entry, PendingRequests};
use crate::set::Set;
use nandu_base::{Declared, Instant, Report, Span, TenantId, options};

/// Options of `vssd`.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VssdConfig {
    /// Channels of the drive.
    #[option(default = 8, range = 1..=64)]
    pub channels: u32,
    /// Credits of a tenant at a channel, in cost at weight 100. More than what a tenant keeps outstanding costs it a part of its share.
    #[option(default = Span::from_us(100), range = Span::from_us(10)..)]
    pub credits: Span,
    /// Requests in flight to one channel.
    #[option(default = 8, range = 1..)]
    pub channel_depth: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    turn: u32,
    out: u32,
    /// Renewals so far.
    round: u64,
}

impl Declared for VssdConfig {
    const NAME: &'static str = "vssd";
    const SUMMARY: &'static str = "Credits over channel queues.";
    const SOURCE: &'static str = "the paper on virtual SSDs";
    const DRAWS: &'static [&'static str] = &["channels = 2, credits = \"500 us\", channel_depth = 2"];
}

impl SchedulerOptions for VssdConfig {
    type Scheduler = Vssd;

    fn by_lane(&self) -> bool {
        true
    }

    /// A die is one channel of one operation, and of a read that passes it.
    fn for_die(&self) -> Result<VssdConfig, &'static str> {
        Ok(VssdConfig { channels: 1, channel_depth: 2, ..*self })
    }

    fn build(&self, given: Given) -> Vssd {
        Vssd::new(*self, given.weights)
    }
}

/// Credits over channel queues.
pub struct Vssd {
    config: VssdConfig,
    weights: Weights,
    channels: Vec<Channel>,
    /// By channel and tenant, as they were after so many renewals; below zero when the last request cost more.
    credits: Vec<(i64, u64)>,
    /// By channel, the tenants that have a request waiting.
    waiting: Vec<Set>,
    /// The channel that is asked first.
    first: usize,
    renewals: u64,
}

impl Vssd {
    /// The scheduler for tenants of these weights, SYSTEM first.
    pub fn new(config: VssdConfig, weights: Weights) -> Vssd {
        let channels = config.channels as usize;
        Vssd {
            config,
            channels: vec![Channel::default(); channels],
            credits: vec![(0, 0); channels * weights.0.len()],
            waiting: vec![Set::new(weights.0.len()); channels],
            weights,
            first: 0,
            renewals: 0,
        }
    }

    fn place(&self, channel: usize, tenant: usize) -> usize {
        channel * self.weights.0.len() + tenant
    }

    /// What one renewal gives a tenant.
    #[inline]
    fn share(&self, tenant: usize) -> i64 {
        self.weights.share(tenant, self.config.credits.0) as i64
    }

    /// The credits of a tenant at a channel. Each renewal forgets what is left and adds a share to what is owed.
    #[inline]
    fn credits(&self, channel: usize, tenant: usize) -> i64 {
        let (credits, round) = self.credits[self.place(channel, tenant)];
        match (self.channels[channel].round - round) as i64 {
            0 => credits,
            renewals => {
                let (owed, share) = (credits.min(0), self.share(tenant));
                match owed.saturating_add((renewals - 1).saturating_mul(share)) {
                    before if before > 0 => share,
                    before => before + share,
                }
            }
        }
    }

    /// The request that goes next to `channel`.
    fn head(&mut self, channel: usize, pending: &PendingRequests) -> Option<u32> {
        if self.waiting[channel].is_empty() {
            return None;
        }
        loop {
            let turn = self.channels[channel].turn as usize;
            let (mut behind, mut before, mut renewals) = (None, None, u64::MAX);
            for tenant in self.waiting[channel].iter() {
                let credits = self.credits(channel, tenant);
                if credits <= 0 {
                    renewals = renewals.min((-credits / self.share(tenant)) as u64 + 1);
                } else if tenant >= turn {
                    behind = Some(tenant);
                    break;
                } else {
                    before = before.or(Some(tenant));
                }
            }
            if let Some(tenant) = behind.or(before) {
                let place = self.place(channel, tenant);
                self.credits[place] = (self.credits(channel, tenant), self.channels[channel].round);
                self.channels[channel].turn = tenant as u32;
                return pending.first(place);
            }
            // So many until one of those that wait may send. Whose turn ends by a renewal is behind the others then.
            let tenants = self.weights.0.len() as u64;
            let state = &mut self.channels[channel];
            state.round += renewals;
            state.turn = ((u64::from(state.turn) + renewals) % tenants) as u32;
            self.renewals += renewals;
        }
    }
}

impl Scheduler for Vssd {
    fn groups(&self, tenants: usize) -> usize {
        self.channels.len() * tenants
    }

    fn group(&self, tenant: TenantId, lane: u32) -> u32 {
        self.place(lane as usize % self.channels.len(), usize::from(tenant.0)) as u32
    }

    fn arrived(&mut self, slot: u32, pending: &PendingRequests, _now: Instant) {
        let entry = pending.get(slot);
        let channel = entry.lane as usize % self.channels.len();
        self.waiting[channel].put(usize::from(entry.tenant.0), true);
    }

    fn next(&mut self, pending: &PendingRequests, _now: Instant) -> Next {
        let channels = self.channels.len();
        for step in 0..channels {
            let channel = (self.first + step) % channels;
            if self.channels[channel].out >= self.config.channel_depth {
                continue;
            }
            if let Some(slot) = self.head(channel, pending) {
                let entry = pending.get(slot);
                let tenant = usize::from(entry.tenant.0);
                let place = self.place(channel, tenant);
                self.credits[place].0 -= entry.cost.0 as i64;
                self.waiting[channel].put(tenant, pending.waiting_in(place) > 1);
                self.channels[channel].out += 1;
                self.first = (channel + 1) % channels;
                return Next::Send(slot);
            }
        }
        Next::Nothing
    }

    fn done(&mut self, entry: &Entry, _pending: &PendingRequests, _now: Instant) {
        let channel = entry.lane as usize % self.channels.len();
        self.channels[channel].out -= 1;
    }

    fn set_weight(&mut self, tenant: TenantId, weight: u16) {
        // Renewals so far gave shares of the weight that was.
        for channel in 0..self.channels.len() {
            let place = self.place(channel, usize::from(tenant.0));
            self.credits[place] =
                (self.credits(channel, usize::from(tenant.0)), self.channels[channel].round);
        }
        self.weights.set(tenant, weight);
    }

    fn report(&mut self, report: &mut Report) {
        report.count("credit_renewals", &mut self.renewals);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Load, Rig, in_proportion};
    use super::*;

    #[test]
    fn cost_is_shared_by_weight_at_every_channel() {
        let weights = [100, 200];
        let vssd =
            Vssd::new(VssdConfig { channel_depth: 1, ..VssdConfig::default() }, Weights(vec![100, 100, 200]));
        let shares = Rig::new(vssd, &weights).depth(8).run(&[Load::reads(256), Load::writes(256)], 200_000);
        assert!(in_proportion(&shares, &[1, 2], 5), "{shares:?}");
    }

    #[test]
    fn a_flood_is_met_by_turns() {
        let vssd = Vssd::new(VssdConfig { channel_depth: 1, ..VssdConfig::default() }, Weights(vec![100; 3]));
        let mut rig = Rig::new(vssd, &[100, 100]).depth(8);
        rig.run(&[Load::reads(8), Load::writes(512)], 50_000);
        // At its channel the reader waits for one slice of credits of the writer, and for the request on its way.
        assert!(rig.longest[0] <= Span::from_us(2 * (100 + 412) + 8 * (100 + 412)), "{}", rig.longest[0]);
    }
}

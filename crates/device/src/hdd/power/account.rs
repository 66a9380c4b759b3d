//! What a disk reports of its power states: energy, times, starts.

use super::Power;
use nandu_base::{EnergyPart, Instant, MicroWatts, Report, Span};

impl Power {
    /// Energy so far, in nJ.
    pub fn energy_nj(&self) -> u64 {
        let part = |time: Span, mw: u64| u128::from(time.0) * u128::from(mw);
        let (t, s) = (&self.times, &self.spec);
        let mut sum = part(t.seek, s.seek_mw) + part(t.transfer, s.transfer_mw) + part(t.idle, s.idle_mw);
        for (number, level) in s.rest.iter().enumerate() {
            sum += part(t.enter[number], level.enter_mw)
                + part(t.there[number], level.power_mw)
                + part(t.leave[number], level.leave_mw);
        }
        (sum / 1000) as u64
    }

    /// What was drawn from `from`, when the counting began, to `to`, rest included.
    pub fn account(&self, from: Instant, to: Instant, out: &mut Vec<EnergyPart>) {
        let mut now = self.clone();
        now.rest_until(to);
        // What passed between the last movement before the counting and its beginning is not counted.
        let mut before =
            self.at_reset.as_deref().cloned().unwrap_or_else(|| Power::new(self.spec.clone(), None));
        before.rest_until(from);
        let mut put = |state, time: Span, not: Span, mw: u64| {
            out.push(EnergyPart::state(
                state,
                u128::from(time.0.saturating_sub(not.0)),
                MicroWatts(mw * 1000),
            ));
        };
        let (t, b, s) = (&now.times, &before.times, &self.spec);
        put("seek", t.seek, b.seek, s.seek_mw);
        put("transfer", t.transfer, b.transfer, s.transfer_mw);
        put("idle", t.idle, b.idle, s.idle_mw);
        for (at, level) in s.rest.iter().enumerate() {
            let [enter, there, leave] = match level.stops {
                true => ["spin down", "standby", "spin up"],
                false => ["unload", "low power idle", "load"],
            };
            put(enter, t.enter[at], b.enter[at], level.enter_mw);
            put(there, t.there[at], b.there[at], level.power_mw);
            put(leave, t.leave[at], b.leave[at], level.leave_mw);
        }
    }

    /// Puts in times, starts and energy, or counts them anew.
    pub fn report(&mut self, report: &mut Report) {
        if report.wants_counters() {
            let levels = |stops: bool| {
                let there = self.spec.rest.iter().zip(&self.times.there);
                there.filter(|(level, _)| level.stops == stops).fold(Span::ZERO, |sum, (_, &t)| sum + t).0
            };
            let ways = self.times.enter.iter().chain(&self.times.leave).fold(Span::ZERO, |sum, &t| sum + t);
            report.put("seek_ns", self.times.seek.0);
            report.put("transfer_ns", self.times.transfer.0);
            report.put("idle_ns", self.times.idle.0);
            report.put("low_power_idle_ns", levels(false));
            report.put("standby_ns", levels(true));
            report.put("power_transition_ns", ways.0);
            report.put("spin_ups", self.starts);
            report.put("head_loads", self.unloads);
            report.put("energy_nj", self.energy_nj());
        }
        report.energy(|from, to, out| self.account(from, to, out));
        if report.begins_anew() {
            self.reset();
        }
    }
}

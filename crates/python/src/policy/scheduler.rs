//! Schedulers: a class is told what comes and what ends, and names who goes next.
//!
//! It keeps its own picture of what waits, by the numbers of requests: the pending requests of a queue can be seen for the length of a question only.

use super::{Class, Object, Use, ask, kept, tuple};
use nandu::replacement::{Hashed, LineMap};
use nandu::scheduler::{
    AnyScheduler, Class as OpClass, Entry, Given, Next, Parts, PendingRequests, Scheduler, Schedulers, queue,
};
use nandu::units::{Ask, Instant, Machine, Report, Span, TenantId};
use nandu::{Declaration, Policy};
use pyo3::prelude::*;
use std::sync::Arc;

/// The policy that `class` is.
pub fn policy(py: Python<'_>, declaration: Declaration, class: Class) -> Result<Policy, String> {
    let traits = Traits {
        one_at_a_time: class.is(py, "one_at_a_time")?,
        by_lane: class.is(py, "by_lane")?,
        dies: class.is(py, "dies")?,
        anticipation: Span(class.number(py, "anticipation")?),
    };
    let class = Arc::new(class);
    Ok(Policy::late::<Schedulers>(declaration, move |options| {
        Ok(Arc::new(Options { class: Use { class: Arc::clone(&class), options }, traits }))
    }))
}

/// What the class says of all its instances.
#[derive(Clone, Copy, Debug)]
struct Traits {
    one_at_a_time: bool,
    by_lane: bool,
    dies: bool,
    anticipation: Span,
}

#[derive(Debug)]
struct Options {
    class: Use,
    traits: Traits,
}

bounded_by_schema!(Options);

impl AnyScheduler for Options {
    fn flaw(&self) -> Option<&'static str> {
        None
    }

    fn takes_order(&self) -> bool {
        false
    }

    fn one_at_a_time(&self) -> bool {
        self.traits.one_at_a_time
    }

    fn anticipation(&self) -> Span {
        self.traits.anticipation
    }

    fn queue(&self, given: Given, parts: Parts<'_>) -> Box<dyn Machine> {
        queue(ask(|py| self.instance(py, &given)), self.traits.by_lane, parts)
    }

    fn of_die(&self, given: Given) -> Result<Box<dyn Scheduler>, &'static str> {
        match self.traits.dies {
            true => Ok(Box::new(ask(|py| self.instance(py, &given)))),
            false => Err("its class says that it is not for dies"),
        }
    }
}

impl Options {
    fn instance(&self, py: Python<'_>, given: &Given) -> PyResult<Instance> {
        let weights: Vec<u64> = given.weights.0.iter().map(|&weight| weight.into()).collect();
        let object = self.class.made(py, "Tenants", (weights,))?;
        Ok(Instance {
            request: tuple(py, "Request")?,
            until: tuple(py, "Until")?,
            arrived: object.method(py, "arrived")?,
            next: object.method(py, "next")?,
            done: object.own(py, "Scheduler", "done")?,
            slots: Hashed::new(0),
            object,
        })
    }
}

/// An instance in a queue or a die.
struct Instance {
    object: Object,
    request: Py<PyAny>,
    until: Py<PyAny>,
    arrived: Py<PyAny>,
    next: Py<PyAny>,
    done: Option<Py<PyAny>>,
    /// Slots of pending requests by the numbers of the requests that wait in them.
    slots: Hashed,
}

impl Instance {
    fn told(&self, py: Python<'_>, entry: &Entry) -> PyResult<Py<PyAny>> {
        let Entry { number, start, end, cost, lane, .. } = *entry;
        let (tenant, is_read) = (entry.tenant.0, entry.class == OpClass::Read);
        self.request.call1(py, (number, tenant, is_read, start, end, cost.0, lane))
    }

    fn answer(&self, py: Python<'_>, pending: &PendingRequests, now: Instant) -> PyResult<Next> {
        let answer = self.next.bind(py).call1((now.0,))?;
        if answer.is_none() {
            return match pending.out() {
                0 => Err(self.object.broke("next", "answers None, but nothing is on its way that could end")),
                _ => Ok(Next::Nothing),
            };
        }
        if answer.is_instance(self.until.bind(py))? {
            let (at, tenant): (u64, u16) = answer.extract()?;
            if usize::from(tenant) >= pending.tenants() {
                let how = format!("awaits tenant {tenant}, and there are 0 to {}", pending.tenants() - 1);
                return Err(self.object.broke("next", how));
            }
            return match at > now.0 {
                true => Ok(Next::Until(Instant(at), TenantId(tenant))),
                false => {
                    let how = format!("waits until {at}, which is not later than now, {}", now.0);
                    Err(self.object.broke("next", how))
                }
            };
        }
        let Ok(number) = answer.extract::<u64>() else {
            let how = format!("answers {answer:?}; right is the number of a request, an Until, or None");
            return Err(self.object.broke("next", how));
        };
        let slot = self.slots.get(number);
        slot.map(Next::Send)
            .ok_or_else(|| self.object.broke("next", format!("names request {number}, which does not wait")))
    }
}

impl Scheduler for Instance {
    fn groups(&self, _tenants: usize) -> usize {
        1
    }

    fn group(&self, _tenant: TenantId, _lane: u32) -> u32 {
        0
    }

    fn arrived(&mut self, slot: u32, pending: &PendingRequests, now: Instant) {
        let entry = pending.get(slot);
        self.slots.insert(entry.number, slot);
        ask(|py| self.arrived.call1(py, (self.told(py, entry)?, now.0)));
    }

    fn next(&mut self, pending: &PendingRequests, now: Instant) -> Next {
        let next = ask(|py| self.answer(py, pending, now));
        if let Next::Send(slot) = next {
            self.slots.remove(pending.get(slot).number);
        }
        next
    }

    fn done(&mut self, entry: &Entry, _pending: &PendingRequests, now: Instant) {
        let Some(done) = &self.done else { return };
        ask(|py| done.call1(py, (self.told(py, entry)?, now.0)));
    }

    fn set_weight(&mut self, tenant: TenantId, weight: u16) {
        ask(|py| self.object.object.call_method1(py, "set_weight", (tenant.0, weight)));
    }

    fn report(&mut self, report: &mut Report) {
        match report.ask() {
            Ask::Counters => {
                let own: Vec<(String, u64)> = ask(|py| self.object.counters(py));
                own.into_iter().for_each(|(name, value)| report.put(kept(name), value));
            }
            Ask::Anew => {
                ask(|py| self.object.object.call_method0(py, "reset_counters"));
            }
            _ => {}
        }
    }
}

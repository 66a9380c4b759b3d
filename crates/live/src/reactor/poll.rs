//! Waiting for sockets and wake-ups.

use super::look::Look;
use super::slab::Key;
use nandu_base::Span;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Who became ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The completions of backends, or a stop from another thread.
    Wake,
    /// A listener for NBD clients, by its number.
    Listener(u32),
    /// The listener for control clients.
    ControlListener,
    /// An NBD connection.
    Client(Key),
    /// A control connection.
    Control(Key),
    /// Something the caller of the reactor watches, by its own number.
    Outside(u32),
    /// The alarm of a [`Poll`] that is precise; nobody else hears of it.
    Alarm,
}

impl Source {
    fn encode(self) -> u64 {
        let pack = |kind: u64, key: Key| kind << 56 | u64::from(key.generation) << 32 | u64::from(key.slot);
        match self {
            Source::Wake => 0,
            Source::Listener(n) => 1 << 56 | u64::from(n),
            Source::ControlListener => 2 << 56,
            Source::Client(key) => pack(3, key),
            Source::Control(key) => pack(4, key),
            Source::Outside(n) => 5 << 56 | u64::from(n),
            Source::Alarm => 6 << 56,
        }
    }

    fn decode(data: u64) -> Source {
        let key = Key { slot: data as u32, generation: (data >> 32) as u32 & 0x00FF_FFFF };
        match data >> 56 {
            0 => Source::Wake,
            1 => Source::Listener(key.slot),
            2 => Source::ControlListener,
            3 => Source::Client(key),
            4 => Source::Control(key),
            5 => Source::Outside(key.slot),
            _ => Source::Alarm,
        }
    }
}

/// What is awaited of a file descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Interest {
    pub read: bool,
    pub write: bool,
}

impl Interest {
    pub const READ: Interest = Interest { read: true, write: false };

    fn flags(self) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN | EventFlags::RDHUP, self.read);
        flags.set(EventFlags::OUT, self.write);
        flags
    }
}

/// One thing that happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub source: Source,
    /// The peer is gone in both directions, or the socket is broken.
    pub broken: bool,
}

/// An epoll instance. Its own timeouts are in whole milliseconds; one that is precise has a timer of the system beside it.
pub(crate) struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    alarm: Option<OwnedFd>,
    look: Look,
}

impl Poll {
    /// One whose waits poll for at most `look` before they sleep.
    pub fn new(look: Span) -> io::Result<Poll> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Poll { epoll, events: Vec::with_capacity(64), alarm: None, look: Look::new(look) })
    }

    /// From here on timeouts are in nanoseconds, for a system call more each.
    pub fn be_precise(&mut self) -> io::Result<()> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let alarm = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        self.add(&alarm, Source::Alarm, Interest::READ)?;
        self.alarm = Some(alarm);
        Ok(())
    }

    pub fn add(&self, fd: impl AsFd, source: Source, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(source.encode()), interest.flags())?)
    }

    pub fn change(&self, fd: impl AsFd, source: Source, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(source.encode()), interest.flags())?)
    }

    pub fn remove(&self, fd: impl AsFd) {
        // A descriptor that is not there any more is what was wanted.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits until something is ready, at most `timeout` (`None`: without end).
    pub fn wait(&mut self, timeout: Option<Span>, ready: &mut Vec<Ready>) -> io::Result<()> {
        self.events.clear();
        if !self.look_first(timeout)? {
            self.sleep(timeout)?;
        }
        for event in &self.events {
            let source = Source::decode(event.data.u64());
            match (source, &self.alarm) {
                (Source::Alarm, Some(alarm)) => {
                    let _ = rustix::io::read(alarm, &mut [0; 8]); // it may have been set anew since
                }
                _ => {
                    let broken = { event.flags }.intersects(EventFlags::HUP | EventFlags::ERR);
                    ready.push(Ready { source, broken });
                }
            }
        }
        Ok(())
    }

    /// Polls for a moment before the thread sleeps. Whether something came.
    fn look_first(&mut self, timeout: Option<Span>) -> io::Result<bool> {
        if timeout == Some(Span::ZERO) {
            return Ok(false);
        }
        let most = self.look.next();
        if most == Span::ZERO {
            return Ok(false);
        }
        let until = std::time::Instant::now()
            + std::time::Duration::from_nanos(timeout.map_or(most, |t| t.min(most)).0);
        loop {
            self.ask(Some(&Timespec::default()))?;
            let came = !self.events.is_empty();
            if came || std::time::Instant::now() >= until {
                self.look.polled(came);
                return Ok(came);
            }
        }
    }

    fn sleep(&mut self, timeout: Option<Span>) -> io::Result<()> {
        let timeout = timeout.map(|span| Timespec {
            tv_sec: (span.0 / 1_000_000_000) as i64,
            tv_nsec: (span.0 % 1_000_000_000) as i64,
        });
        let timeout = match (&self.alarm, timeout) {
            (Some(alarm), Some(at)) if at.tv_sec > 0 || at.tv_nsec > 0 => {
                let once = Itimerspec { it_interval: Timespec::default(), it_value: at };
                timerfd_settime(alarm, TimerfdTimerFlags::empty(), &once)?;
                None
            }
            (_, timeout) => timeout,
        };
        self.ask(timeout.as_ref())
    }

    /// What is ready now, or within `timeout`. A signal ends it early.
    fn ask(&mut self, timeout: Option<&Timespec>) -> io::Result<()> {
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    /// A wait that polls finds what one that sleeps finds, and ends without anything when its time is over.
    #[test]
    fn polling_changes_nothing_but_when() {
        for (look, precise) in [(0, false), (50, false), (50, true)] {
            let mut poll = Poll::new(Span::from_us(look)).expect("an epoll instance");
            if precise {
                poll.be_precise().expect("a timer");
            }
            let event = eventfd(0, EventfdFlags::NONBLOCK).expect("an event");
            poll.add(&event, Source::Outside(7), Interest::READ).expect("it is watched");
            let mut ready = Vec::new();
            for timeout in [0, 20] {
                poll.wait(Some(Span::from_us(timeout)), &mut ready).expect("nothing fails");
                assert!(ready.is_empty(), "polls for {look} us, precise: {precise}");
            }
            assert_eq!(poll.look.next(), Span::ZERO, "one has polled in vain, or none ever does");
            poll.wait(Some(Span::from_us(2000)), &mut ready).expect("nothing fails");
            assert!(ready.is_empty(), "polls for {look} us, precise: {precise}");
            rustix::io::write(&event, &1u64.to_ne_bytes()).expect("it is set");
            let long = Some(Span::from_secs(60));
            for timeout in [None, Some(Span::ZERO), long, long, long] {
                poll.wait(timeout, &mut ready).expect("nothing fails");
                assert_eq!(
                    ready.drain(..).map(|ready| ready.source).collect::<Vec<_>>(),
                    [Source::Outside(7)]
                );
            }
            assert_eq!(poll.look.next(), Span::from_us(look), "the last one has polled and found it");
        }
    }
}

//! How much all connections may hold, and how it is shared.
//!
//! A request takes what its data need when it is read, and gives it back when the last byte of its reply is sent: a client
//! that does not read its replies keeps what they take. Half of the memory is dealt to the connections that there may be, in
//! equal shares; what a connection holds beyond its share comes out of the other half, first come first served. So a client
//! that stays within its share never waits for others, however much they hold, and one that is alone has more than half.

use super::conn::Caps;
use std::cell::Cell;

/// The memory of all connections of a server.
#[derive(Debug)]
pub(crate) struct Memory {
    /// What each connection has for itself.
    share: u64,
    /// What all have in common.
    common: u64,
    used: Cell<u64>,
    common_used: Cell<u64>,
    waits: Cell<bool>,
    came_back: Cell<bool>,
}

impl Memory {
    /// What `caps` leave for the data of requests of connections and `devices`, which have a share each.
    pub fn new(caps: &Caps, devices: usize) -> Memory {
        let most = caps.memory.0.saturating_sub(caps.own_memory());
        let zero = || Cell::new(0);
        let no = || Cell::new(false);
        Memory {
            share: most / 2 / (caps.connections.max(1) + devices) as u64,
            common: most / 2,
            used: zero(),
            common_used: zero(),
            waits: no(),
            came_back: no(),
        }
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.get()
    }

    /// Of what a connection holds, what is beyond its share.
    fn beyond(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.share)
    }

    /// Whether a connection that holds `has` may have `more`.
    pub fn is_left(&self, has: u64, more: u64) -> bool {
        let wanted = self.beyond(has + more) - self.beyond(has);
        wanted == 0 || self.common_used.get() + wanted <= self.common
    }

    /// What a connection holds has changed.
    pub fn change(&self, before: u64, after: u64) {
        self.used.set(self.used.get() - before + after);
        self.common_used.set(self.common_used.get() - self.beyond(before) + self.beyond(after));
        self.came_back.set(after < before || self.came_back.get());
    }

    /// A connection waits for memory, if that is so.
    pub fn someone_waits(&self, waits: bool) {
        self.waits.set(waits || self.waits.get());
    }

    /// Whether somebody waits for memory.
    pub fn is_short(&self) -> bool {
        self.waits.get()
    }

    /// Whether those who wait are to be looked at again: memory came back.
    pub fn wakes(&self) -> bool {
        let came_back = self.came_back.replace(false);
        came_back && self.waits.replace(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::ByteLen;

    #[test]
    fn a_share_is_there_for_each_connection_whatever_others_hold() {
        let caps = Caps { connections: 10, ..Caps::default() };
        let memory = Memory::new(&Caps { memory: ByteLen(caps.own_memory() + 2000), ..caps }, 0);
        let grow = |has: &mut u64, by: u64| {
            let may = memory.is_left(*has, by);
            if may {
                memory.change(*has, *has + by);
                *has += by;
            }
            may
        };
        let mut held = [0; 10];
        while grow(&mut held[0], 1) {}
        assert_eq!(held[0], 1100, "a share of 100, and what is common");
        for has in &mut held[1..] {
            assert!(grow(has, 100) && !grow(has, 1), "the share is left, and no more");
        }
        assert_eq!(memory.used(), 2000);
        memory.someone_waits(true);
        assert!(!memory.wakes(), "nothing came back");
        memory.change(held[0], 50);
        assert!(memory.wakes() && !memory.wakes(), "once");
        assert!(grow(&mut held[1], 1000) && !grow(&mut held[2], 1));
    }
}

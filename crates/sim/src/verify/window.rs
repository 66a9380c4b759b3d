//! Requests under way, by serial number.
//!
//! Serial numbers are given in the order in which requests come, so the open ones lie in a short window. Its front is the
//! oldest request under way. RAM: 32 bytes for each number from the oldest open one to the newest.

use super::oracle::Asked;
use std::collections::VecDeque;

/// A request under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flight {
    pub asked: Asked,
    /// Changes that had ended when it came.
    pub came: u32,
}

/// The window of open requests.
#[derive(Clone, Debug)]
pub(super) struct Window {
    flights: VecDeque<Option<Flight>>,
    /// Serial number of the front.
    first: u32,
    open: usize,
}

impl Window {
    /// No request yet; the first will be number `first`.
    pub fn from(first: u32) -> Window {
        assert!(first > 0, "serial number 0 means zeros");
        Window { flights: VecDeque::new(), first, open: 0 }
    }

    /// Adds a request; returns its serial number.
    #[inline]
    pub fn push(&mut self, flight: Flight) -> u32 {
        let serial = self.first + self.flights.len() as u32;
        assert!(serial < u32::MAX, "an oracle follows at most 2^32 - 2 requests");
        self.flights.push_back(Some(flight));
        self.open += 1;
        serial
    }

    /// The open request of this number.
    #[inline]
    pub fn get(&self, serial: u32) -> Option<&Flight> {
        let at = serial.checked_sub(self.first)?;
        self.flights.get(at as usize)?.as_ref()
    }

    /// Takes a request out.
    #[inline]
    pub fn close(&mut self, serial: u32) -> Flight {
        let at = (serial - self.first) as usize;
        let flight = self.flights[at].take().expect("a request ends once");
        self.open -= 1;
        while let Some(None) = self.flights.front() {
            self.flights.pop_front();
            self.first += 1;
        }
        flight
    }

    /// Forgets every open request.
    pub fn close_all(&mut self) {
        self.first += self.flights.len() as u32;
        self.flights.clear();
        self.open = 0;
    }

    /// Changes that had ended when the oldest open request came.
    #[inline]
    pub fn oldest_came(&self) -> Option<u32> {
        self.flights.front().and_then(|f| f.map(|f| f.came))
    }

    /// The open requests, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = &Flight> {
        self.flights.iter().flatten()
    }

    /// Number of open requests.
    #[inline]
    pub fn open(&self) -> usize {
        self.open
    }
}

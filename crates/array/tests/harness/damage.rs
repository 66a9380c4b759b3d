//! Bits of records that are turned over while nothing is served.

use super::disk::Disk;
use super::{Subject, World};
use nandu_base::OpenOptions;

/// What a start says, and figures of what it found.
pub type Found = (Result<(), String>, Vec<u64>);

impl<S: Subject> World<S> {
    /// What a start finds, before anything is mended.
    pub fn start(&mut self, figures: &[&str]) -> Found {
        let opened = self.open(OpenOptions::default()).map_err(|why| why.to_string());
        (opened, figures.iter().map(|name| self.counter(name)).collect())
    }

    /// What lies on the legs.
    pub fn kept(&self) -> Vec<Disk> {
        (0..self.legs()).map(|leg| self.disk(leg).copy()).collect()
    }

    /// Cuts the power, and puts back what lay on the legs.
    pub fn restore(&mut self, kept: &[Disk]) {
        self.cut();
        kept.iter().enumerate().for_each(|(leg, disk)| *self.disk(leg) = disk.clone());
    }

    /// Turns over the bits of the record of `leg` that lies at byte `at`, one after the other: a start finds these figures as without. How many were
    /// put right.
    pub fn turn_over(
        &mut self,
        leg: usize,
        at: u64,
        bits: impl Iterator<Item = u64>,
        figures: &[&str],
    ) -> u64 {
        let kept = self.kept();
        let whole = self.start(figures);
        let mut mended = 0;
        for bit in bits {
            self.restore(&kept);
            self.disk(leg).flip_record(at / 512 + bit / 4096, bit % 4096);
            assert_eq!(self.start(figures), whole, "leg {leg}, the record at {at}, bit {bit}");
            mended += self.counter("records_repaired");
            if bit % 64 == 0 {
                self.read_all();
            }
            assert_eq!(self.wrong, None, "leg {leg}, the record at {at}, bit {bit}");
        }
        self.restore(&kept);
        mended
    }
}

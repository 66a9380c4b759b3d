//! Page padding: a NAND block goes below in full, with pages that nobody wrote.

use super::super::Cache;
use super::Padding;
use crate::map::LineMap;
use crate::prefetch::Range;
use nandu_base::Cx;

impl Cache {
    /// Begins to pad `unit`, which is about to be destaged. True when the destage has to wait.
    pub(in crate::machine) fn pad(&mut self, unit: u32, cx: &mut Cx<'_>) -> bool {
        let Some(buffer) = &mut self.buffer else { return false };
        let number = buffer.units[unit as usize].number;
        match buffer.padding {
            Some(Padding { fill: Some(_), .. }) => return true,
            Some(padding) if padding.number == number => return false,
            _ => {}
        }
        let blocks = self.blocks_of(number);
        let Some(buffer) = &mut self.buffer else { return false };
        let missing = blocks.end - blocks.first - u64::from(buffer.units[unit as usize].dirty);
        if missing == 0 || buffer.len() as u64 + missing > buffer.room as u64 {
            return false;
        }
        let dirty = (blocks.first..blocks.end).find_map(|block| buffer.map.get(block));
        let cause = buffer.dirty[dirty.expect("a unit to destage has dirty blocks") as usize].cause;
        let fill = self.fetch(blocks, cause, cx);
        if let Some(buffer) = &mut self.buffer {
            buffer.padding = Some(Padding { number, fill, cause });
        }
        if fill.is_none() {
            self.fill_up();
        }
        fill.is_some()
    }

    /// What was missing of the unit that is padded has come, or failed to.
    pub(in crate::machine) fn padded(&mut self, failed: bool, cx: &mut Cx<'_>) {
        if let Some(buffer) = &mut self.buffer {
            buffer.refused |= failed;
            buffer.padding.iter_mut().for_each(|padding| padding.fill = None);
        }
        self.fill_up();
        self.destage(cx);
        self.close_on(cx);
    }

    /// What the cache holds of the unit that is padded, and is not dirty, becomes dirty.
    fn fill_up(&mut self) {
        let Some(Padding { number, cause, .. }) = self.buffer.as_ref().and_then(|b| b.padding) else {
            return;
        };
        let blocks = self.blocks_of(number);
        let Some(buffer) = &mut self.buffer else { return };
        // It may have gone below meanwhile, because somebody waited for it.
        let Some(unit) = buffer.units_by_number.get(number) else { return };
        buffer.seq += 1;
        for block in blocks.first..blocks.end {
            let clean = self.directory.holds(block) && !self.is_changing(block);
            let Some(buffer) = &mut self.buffer else { return };
            if clean && !buffer.holds(block) && buffer.len() < buffer.room {
                buffer.enter(block, unit, cause);
                buffer.tally.padded += 1;
            }
        }
    }

    /// The blocks of unit `number` that the device has.
    fn blocks_of(&self, number: u64) -> Range {
        let bits = self.buffer.as_ref().map_or(0, |b| b.unit_bits);
        Range { first: number << bits, end: ((number + 1) << bits).min(self.blocks) }
    }
}

//! What the arrays that need all their legs (`stripe`, `concat`) have in common: limits, and events from below.

use nandu_base::{BuildError, ByteLen, DeviceEvent, Limits};

/// Most legs of an array: their states fit one word.
pub(crate) const MOST: usize = 64;

/// What a device made of all `legs` can take: the narrowest of everything. The capacity is left at zero. `key` is the
/// option that names the legs.
pub(crate) fn narrowest(key: &'static str, legs: &[Limits]) -> Result<Limits, BuildError> {
    if legs.is_empty() || legs.len() > MOST {
        return Err(BuildError::at(
            key,
            format!("{} devices are given: 1 to {MOST} can be used", legs.len()),
        ));
    }
    let mut all = Limits { capacity: ByteLen::ZERO, ..legs[0].clone() };
    for leg in &legs[1..] {
        if leg.erase_unit != all.erase_unit {
            return Err(BuildError::at(key, "the devices differ in their erase units"));
        }
        all.align = all.align.max(leg.align);
        all.preferred = all.preferred.max(leg.preferred);
        all.max_io = ByteLen(all.max_io.0.min(leg.max_io.0));
        all.dma_align = all.dma_align.max(leg.dma_align);
        all.depth = all.depth.saturating_add(leg.depth);
        all.program_order |= leg.program_order;
        all.volatile_cache |= leg.volatile_cache;
    }
    all.max_io = ByteLen(all.max_io.0 - all.max_io.0 % u64::from(all.align));
    Ok(all)
}

/// The unit in which a leg's capacity can be used.
pub(crate) fn unit(limits: &Limits) -> u64 {
    limits.erase_unit.map_or(u64::from(limits.align), |unit| unit.0)
}

/// One bit for each leg in each state. The array is lost while one leg is, and likewise for the other states.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct LegStates {
    lost: u64,
    gc: u64,
    standby: u64,
}

impl LegStates {
    /// What `event` of leg `child` means for the array's own parents. A leg that changes its size changes nothing: the
    /// geometry is fixed when the array is made.
    pub fn heard(&mut self, child: u8, event: DeviceEvent) -> Option<DeviceEvent> {
        match event {
            DeviceEvent::Lost => flip(&mut self.lost, child, true).then_some(event),
            DeviceEvent::Back => flip(&mut self.lost, child, false).then_some(event),
            DeviceEvent::GcPressure(on) => flip(&mut self.gc, child, on).then_some(event),
            DeviceEvent::Standby(on) => flip(&mut self.standby, child, on).then_some(event),
            DeviceEvent::Resized(_) | DeviceEvent::Notice(_) => None,
        }
    }
}

/// Whether the state of the whole changes.
fn flip(legs: &mut u64, child: u8, on: bool) -> bool {
    let before = *legs != 0;
    if on {
        *legs |= 1 << child;
    } else {
        *legs &= !(1 << child);
    }
    before != (*legs != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_takes_what_the_narrowest_leg_takes_and_keeps_what_any_must_keep() {
        let plain = Limits::plain(ByteLen::mib(1));
        let odd = Limits {
            align: 4096,
            preferred: 16384,
            max_io: ByteLen(70_000),
            dma_align: 4096,
            depth: 3,
            program_order: true,
            volatile_cache: true,
            ..plain.clone()
        };
        for legs in [[plain.clone(), odd.clone()], [odd.clone(), plain.clone()]] {
            let all = narrowest("legs", &legs).expect("they differ in nothing that matters");
            assert_eq!((all.align, all.preferred, all.dma_align), (4096, 16384, 4096));
            assert_eq!((all.max_io.0, all.depth), (17 * 4096, plain.depth + 3));
            assert!(all.program_order && all.volatile_cache, "one leg with a cache makes a flush needed");
        }
        let erased = |unit| Limits { erase_unit: Some(ByteLen::kib(unit)), ..plain.clone() };
        assert!(narrowest("legs", &[erased(64), erased(64)]).is_ok());
        for unlike in [[erased(64), erased(32)], [erased(64), plain.clone()], [plain.clone(), erased(64)]] {
            assert!(narrowest("legs", &unlike).is_err());
        }
    }

    #[test]
    fn an_array_is_back_when_its_last_leg_is() {
        let mut states = LegStates::default();
        assert_eq!(states.heard(0, DeviceEvent::Lost), Some(DeviceEvent::Lost));
        assert_eq!(states.heard(1, DeviceEvent::Lost), None);
        assert_eq!(states.heard(0, DeviceEvent::Back), None);
        assert_eq!(states.heard(1, DeviceEvent::GcPressure(true)), Some(DeviceEvent::GcPressure(true)));
        assert_eq!(states.heard(1, DeviceEvent::Back), Some(DeviceEvent::Back));
    }
}

//! `flash-area`: one area of a flash chip whose blocks have several modes.
//!
//! A request is shifted by the area's offset and passed on; nobody waits for it here. What the area is, its name, size and
//! erase unit, the chip says in its limits. Several areas stand on one chip: they share its dies and its channel, so one
//! waits while the other erases, which two chips would not do. Spec S4-1: "Regions may be separate chips or blocks of one
//! chip set to SLC or MLC mode".
//!
//! Bounds: one step per request. RAM: none per byte.

use nandu_base::{
    Area, BuildContext, BuildError, ByteLen, ByteOffset, DeviceConfig, Kind, Limits, Machine, Part, Plant,
    options, registry::nearest,
};

/// Options of `flash-area`.
#[options]
#[derive(Clone, Debug)]
pub struct FlashAreaConfig {
    /// The chip: a `flash` with `areas`.
    pub below: String,
    /// The name of the area.
    pub area: String,
}

const NEXT_DOOR: Plant = Plant::new(
    "flash-area.next-door",
    "open",
    "reads that do not begin at the start of the area begin one page early",
)
.within("hybrid-on-one-chip");

/// The machine kind `flash-area`.
pub fn kind() -> Kind {
    Kind::of::<FlashAreaConfig>("flash-area", "an area of a flash chip whose blocks have several modes")
        .with_plants(&[NEXT_DOOR])
}

impl FlashAreaConfig {
    fn find<'a>(&self, below: &'a Limits) -> Result<&'a Area, BuildError> {
        if below.areas.is_empty() {
            let why = format!("`{}` has no areas: a `flash` gets them by its option `areas`", self.below);
            return Err(BuildError::at("below", why));
        }
        below.areas.iter().find(|a| a.name == self.area).ok_or_else(|| {
            let names: Vec<&str> = below.areas.iter().map(|a| a.name.as_str()).collect();
            let near = nearest(&self.area, names.iter().copied());
            let hint = near.map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
            let all = names.join(", ");
            BuildError::at("area", format!("`{}` has no area `{}`, only {all}{hint}", self.below, self.area))
        })
    }
}

impl DeviceConfig for FlashAreaConfig {
    fn children(&self) -> Vec<String> {
        vec![self.below.clone()]
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        let below = cx.only_child();
        let area = self.find(below)?;
        let most = area.erase_unit.0.min(below.max_io.0) / u64::from(below.align) * u64::from(below.align);
        let limits = Limits {
            capacity: area.len,
            erase_unit: Some(area.erase_unit),
            max_io: ByteLen(most),
            areas: Vec::new(),
            ..below.clone()
        };
        Ok(Box::new(Part::new(limits, area.offset, cx.planted(NEXT_DOOR.name))))
    }

    fn region(&self, below: &Limits) -> Option<(ByteOffset, ByteLen)> {
        self.find(below).ok().map(|area| (area.offset, area.len))
    }
}

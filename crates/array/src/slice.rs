//! `slice`: part of a device.
//!
//! A request is shifted by the slice's offset and passed on; nobody waits for it here. A flush is passed on as it is: it
//! makes durable what the whole device below holds. Several slices may stand on one device when they do not overlap.
//!
//! Bounds: one step per request. RAM: none per byte.

use nandu_base::{
    BuildContext, BuildError, ByteLen, ByteOffset, DeviceConfig, Kind, Limits, Machine, Part, Plant, options,
};

/// Options of `slice`.
#[options]
#[derive(Clone, Debug)]
pub struct SliceConfig {
    /// The device of which this is a part.
    pub below: String,
    /// First byte of the part.
    #[option(default, also = "a multiple of the alignment and the erase unit below")]
    pub offset: ByteLen,
    /// Length of the part. Default: up to the end of the device below; bounds as for `offset`, and more than 0.
    pub size: Option<ByteLen>,
}

const OFF_BY_ONE: Plant = Plant::new(
    "slice.off-by-one",
    "I-1",
    "reads that do not begin at the start of the slice begin one sector early",
);

/// The machine kind `slice`.
pub fn kind() -> Kind {
    Kind::of::<SliceConfig>("slice", "part of a device").with_plants(&[OFF_BY_ONE])
}

impl SliceConfig {
    fn part(&self, below: &Limits) -> Result<(ByteOffset, ByteLen), BuildError> {
        if !below.areas.is_empty() {
            let why = format!("`{}` has areas with erase units of their own: take a `region`", self.below);
            return Err(BuildError::at("below", why));
        }
        let unit = below.erase_unit.map_or(u64::from(below.align), |unit| unit.0);
        let whole = |key, value: ByteLen| {
            if value.0.is_multiple_of(unit) {
                return Ok(());
            }
            Err(BuildError::at(
                key,
                format!("{} bytes are not a multiple of {} below", value.0, ByteLen(unit)),
            ))
        };
        whole("offset", self.offset)?;
        let Some(rest) = below.capacity.0.checked_sub(self.offset.0).filter(|&rest| rest > 0) else {
            return Err(BuildError::at(
                "offset",
                format!("lies behind the end of `{}` ({})", self.below, below.capacity),
            ));
        };
        let size = self.size.unwrap_or(ByteLen(rest - rest % unit));
        whole("size", size)?;
        if size.0 == 0 {
            return Err(BuildError::at("size", "a part needs at least one sector"));
        }
        if size.0 > rest {
            let reason =
                format!("{size} from {} do not fit into `{}` ({})", self.offset, self.below, below.capacity);
            return Err(BuildError::at("size", reason));
        }
        Ok((ByteOffset(self.offset.0), size))
    }
}

impl DeviceConfig for SliceConfig {
    fn children(&self) -> Vec<String> {
        vec![self.below.clone()]
    }

    fn build(&self, cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        let (offset, size) = self.part(cx.only_child())?;
        let limits = Limits { capacity: size, ..cx.only_child().clone() };
        Ok(Box::new(Part::new(limits, offset, cx.planted(OFF_BY_ONE.name))))
    }

    fn region(&self, below: &Limits) -> Option<(ByteOffset, ByteLen)> {
        self.part(below).ok()
    }
}

//! Block leaves: `memory` and `file`.
//!
//! A block leaf has no model of its own. It hands every request to the block medium that the driver keeps for it: the
//! server does real I/O, the simulator lets each request take `latency`, and then moves its data at `bandwidth`, one
//! request after the other.
//!
//! Reads, writes, flushes, trims and write-zeroes are served; `reset` is refused, for there is nothing to erase.
//! Bounds: one step per request. RAM: none per byte stored; the medium belongs to the driver.

use nandu_base::{
    Advise, BlockSpec, BuildContext, BuildError, ByteLen, ByteOffset, Cx, DeviceConfig, ErrorKind, Kind,
    Limits, Machine, MediumSpec, Needs, Op, Peek, Report, ReqId, Resource, SECTOR, Span, Step, Work, options,
};

/// Options of `memory`.
#[options]
#[derive(Clone, Debug)]
pub struct MemoryConfig {
    /// Capacity in bytes, a multiple of 512 B. From 4 KiB to 1 EiB.
    pub size: ByteLen,
    /// Modelled time of one request before its data moves.
    #[option(default = Span::from_us(1), range = ..=Span::from_secs(3600))]
    pub latency: Span,
    /// Modelled transfer in bytes per second.
    #[option(default = ByteLen::gib(4), range = ByteLen::kib(1)..)]
    pub bandwidth: ByteLen,
}

/// Options of `file`.
#[options]
#[derive(Clone, Debug)]
pub struct FileConfig {
    /// The file or block device behind this leaf in the server.
    pub path: String,
    /// Capacity in bytes, a multiple of the sector. From 4 KiB to 1 EiB. Default: the length of the file or block device, which is
    /// there then.
    pub size: Option<ByteLen>,
    /// Whether the server bypasses the page cache.
    #[option(default)]
    pub direct: bool,
    /// Alignment of offsets, lengths and, with `direct`, buffers.
    #[option(default = ByteLen(SECTOR), range = ByteLen(SECTOR)..=ByteLen::kib(64), power_of_two)]
    pub sector: ByteLen,
    /// Modelled time of one request in the simulator, before its data moves.
    #[option(default = Span::from_us(80), range = ..=Span::from_secs(3600))]
    pub latency: Span,
    /// Modelled transfer in the simulator, in bytes per second.
    #[option(default = ByteLen(500_000_000), range = ByteLen::kib(1)..)]
    pub bandwidth: ByteLen,
}

/// The machine kind `memory`.
pub fn memory() -> Kind {
    Kind::of::<MemoryConfig>("memory", "a leaf in memory, with a modelled latency and bandwidth")
}

/// The machine kind `file`.
pub fn file() -> Kind {
    Kind::of::<FileConfig>(
        "file",
        "a file or block device in the server; a modelled latency in the simulator",
    )
}

impl DeviceConfig for MemoryConfig {
    fn children(&self) -> Vec<String> {
        Vec::new()
    }

    fn build(&self, _cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        let spec = BlockSpec {
            capacity: self.size,
            path: None,
            direct: false,
            latency: self.latency,
            bytes_per_second: self.bandwidth.0,
        };
        BlockLeaf::boxed(Limits::plain(self.size), spec)
    }
}

impl DeviceConfig for FileConfig {
    fn children(&self) -> Vec<String> {
        Vec::new()
    }

    fn build(&self, _cx: &BuildContext<'_>) -> Result<Box<dyn Machine>, BuildError> {
        if self.path.is_empty() {
            return Err(BuildError::at("path", "an empty path names no file"));
        }
        let sector = self.sector.0;
        let Some(size) = self.size else {
            let why = "the length of its file was not looked up: give a size";
            return Err(BuildError::at("size", why));
        };
        let limits = Limits {
            align: sector as u32,
            preferred: Limits::plain(size).preferred.max(sector as u32),
            dma_align: sector as u32,
            volatile_cache: true,
            ..Limits::plain(size)
        };
        let spec = BlockSpec {
            capacity: size,
            path: Some(self.path.clone()),
            direct: self.direct,
            latency: self.latency,
            bytes_per_second: self.bandwidth.0,
        };
        BlockLeaf::boxed(limits, spec)
    }
}

/// A leaf that leaves the work to its medium.
struct BlockLeaf {
    limits: Limits,
    spec: BlockSpec,
    /// Modelled transfer time of everything asked for since the counters were reset.
    busy: Span,
}

impl BlockLeaf {
    fn boxed(limits: Limits, spec: BlockSpec) -> Result<Box<dyn Machine>, BuildError> {
        let size = limits.capacity;
        if !(ByteLen::kib(4)..=ByteLen::gib(1 << 30)).contains(&size) {
            return Err(BuildError::at("size", format!("{size} lies outside 4 KiB to 1 EiB")));
        }
        if !size.0.is_multiple_of(u64::from(limits.align)) {
            let align = ByteLen(u64::from(limits.align));
            return Err(BuildError::at(
                "size",
                format!("{} bytes are not a multiple of the sector of {align}", size.0),
            ));
        }
        Ok(Box::new(BlockLeaf { limits, spec, busy: Span::ZERO }))
    }
}

impl Machine for BlockLeaf {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn needs(&self) -> Needs {
        Needs::medium(MediumSpec::Block(self.spec.clone()))
    }

    #[inline]
    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step {
        let request = &cx.requests[id];
        let (op, len, cause) = (request.op, request.len, request.cause);
        if op == Op::Reset {
            return cx.fail(id, ErrorKind::Unsupported);
        }
        let span = self.spec.transfer(op, len);
        self.busy += span;
        cx.charge(cause, Resource::Device, if op == Op::Read { Work::Read } else { Work::Write }, span);
        Step::Medium(id)
    }

    fn report(&mut self, report: &mut Report) {
        report.busy(Resource::Device, &mut self.busy, 1);
    }

    fn advise(&self) -> Option<&dyn Advise> {
        Some(self)
    }
}

impl Advise for BlockLeaf {
    fn expected_latency(&self, op: Op, _offset: ByteOffset, len: ByteLen, _peek: &Peek<'_>) -> Span {
        self.spec.latency + self.spec.transfer(op, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Precondition;
    use std::collections::BTreeSet;

    fn build(kind: &Kind, options: &str) -> Result<Box<dyn Machine>, BuildError> {
        let planted = BTreeSet::new();
        let cx = BuildContext {
            name: "leaf",
            children: &[],
            seed: 1,
            tenants: 1,
            shares: &[],
            planted: &planted,
            precondition: Precondition::Empty,
        };
        (kind.parse)(options.parse().expect("the test writes TOML")).expect("the options parse").machine(&cx)
    }

    #[test]
    fn a_leaf_states_its_medium() {
        let leaf = build(&memory(), "size = \"1 MiB\"\nlatency = \"5 us\"").unwrap();
        assert_eq!(leaf.limits().capacity, ByteLen::mib(1));
        let MediumSpec::Block(spec) = leaf.needs().medium else { panic!("a block leaf has a block medium") };
        assert_eq!((spec.latency, spec.path), (Span::from_us(5), None));
        let leaf = build(&file(), "path = \"a.img\"\nsize = \"1 MiB\"\nsector = \"4 KiB\"").unwrap();
        assert_eq!(leaf.limits().align, 4096);
        assert!(leaf.limits().volatile_cache);
    }

    #[test]
    fn impossible_geometry_names_its_key() {
        let key = |kind: &Kind, options| build(kind, options).err().expect("it is refused").key;
        assert_eq!(key(&memory(), "size = 5000"), Some("size".into()));
        assert_eq!(key(&memory(), "size = 512"), Some("size".into()));
        assert_eq!(key(&memory(), "size = 8192\nbandwidth = 0"), Some("bandwidth".into()));
        assert_eq!(key(&file(), "size = 8192\npath = \"x\"\nsector = 1000"), Some("sector".into()));
        assert_eq!(key(&file(), "size = 8192\npath = \"\""), Some("path".into()));
        assert_eq!(key(&file(), "path = \"x\""), Some("size".into()), "nobody has looked at the file");
    }
}

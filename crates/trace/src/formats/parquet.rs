//! placeholder
use super::{no_note, Format, Kind};
use crate::error::TraceError;
use crate::load::LoadOptions;
use crate::trace::Trace;
use crate::write::WriteReport;
/// First bytes of a Parquet file.
pub const MAGIC: &[u8] = b"PAR1";
/// Parquet.
pub static FORMAT: Format = Format {
    name: "parquet",
    summary: "Parquet columns: time_ns, op, fua, offset_bytes, len_bytes, stream",
    example: "(columns)",
    sniff: |sample| sample.starts_with(MAGIC),
    note: no_note,
    kind: Kind::Parquet,
    writer: None,
};
pub(crate) fn read(_: Vec<u8>, _: &str, _: &LoadOptions) -> Result<Trace, TraceError> {
    todo!()
}
pub(crate) fn write(_: &Trace, _: &mut (dyn std::io::Write + Send)) -> Result<WriteReport, TraceError> {
    todo!()
}

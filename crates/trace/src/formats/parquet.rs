//! Parquet, one row per request: what dataframe libraries read without a parser.
//!
//! | column         | type             | meaning                                                             |
//! |----------------|------------------|---------------------------------------------------------------------|
//! | `time_ns`      | INT64            | arrival since the first arrival                                     |
//! | `op`           | BYTE_ARRAY UTF8  | read, write, flush, trim, write-zeroes, reset                       |
//! | `fua`          | BOOLEAN          | force unit access                                                   |
//! | `offset_bytes` | INT64            | first byte                                                          |
//! | `len_bytes`    | INT64            | bytes; 0 for a flush                                                |
//! | `stream`       | INT32            | index into `nandu.trace.streams`                                    |
//! | `service_ns`   | INT64            | measured response time; the column exists when the recording has it |
//!
//! File metadata: `nandu.trace.schema` (the version, 1), `.origin`, `.arrival`, `.start_ns`, `.streams` (JSON list of
//! names), `.format` (of the source), `.content_hash`. Files by others need the first five columns and no metadata.
//! Nulls are errors. Columns are compressed with zstd; the file around them is read whole.
//!
//! The Parquet library panics on some damaged pages. That is caught and returned as damage, which is why no profile of
//! the workspace aborts on a panic.

use super::{Format, Kind, Tried, no_note};
use crate::builder::{Builder, Line};
use crate::error::{TraceError, Why};
use crate::load::{BadLines, LoadOptions};
use crate::record::{Record, RecordError};
use crate::trace::{Arrival, Meta, Origin, Trace};
use crate::write::WriteReport;
use nandu_base::Op;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::io::Write;
use std::sync::Arc;

/// First bytes of a Parquet file.
pub const MAGIC: &[u8] = b"PAR1";
/// Version of the columns above.
pub const SCHEMA_VERSION: &str = "1";

/// Parquet.
pub static FORMAT: Format = Format {
    name: "parquet",
    summary: "Parquet columns: time_ns, op, fua, offset_bytes, len_bytes, stream[, service_ns]",
    example: "time_ns=0, op=write, fua=false, offset_bytes=4096, len_bytes=8192, stream=0",
    tried: Tried::Tool,
    sniff: |sample| sample.starts_with(MAGIC),
    note: no_note,
    kind: Kind::Parquet,
    writer: None,
};

const ROWS_PER_GROUP: usize = 1 << 18;
const ROWS_PER_BATCH: usize = 1 << 14;
const KEY: &str = "nandu.trace.";

/// Writes all records; Parquet has a word for everything, so nothing is lost.
pub(crate) fn write(trace: &Trace, out: &mut (dyn Write + Send)) -> Result<WriteReport, TraceError> {
    let failed = |e: ParquetError| TraceError::Io {
        source_name: "parquet output".into(),
        error: std::io::Error::other(e.to_string()),
    };
    let service = if trace.service.is_some() { "REQUIRED INT64 service_ns;" } else { "" };
    let schema = format!(
        "message trace {{ REQUIRED INT64 time_ns; REQUIRED BYTE_ARRAY op (UTF8); REQUIRED BOOLEAN fua; \
         REQUIRED INT64 offset_bytes; REQUIRED INT64 len_bytes; REQUIRED INT32 stream; {service} }}"
    );
    let schema = Arc::new(parse_message_type(&schema).map_err(failed)?);
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties(trace))).map_err(failed)?;
    for (group, records) in trace.records.chunks(ROWS_PER_GROUP).enumerate() {
        let service = trace.service.as_ref().map(|s| &s[group * ROWS_PER_GROUP..][..records.len()]);
        let mut row_group = writer.next_row_group().map_err(failed)?;
        write_group(&mut row_group, records, service).map_err(failed)?;
        row_group.close().map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    Ok(WriteReport { requests: trace.records.len() as u64, ..WriteReport::default() })
}

fn properties(trace: &Trace) -> WriterProperties {
    let names: Vec<&str> = trace.streams.iter().map(|s| s.name.as_str()).collect();
    let pairs = [
        ("schema", SCHEMA_VERSION.to_string()),
        ("origin", trace.meta.origin.name().to_string()),
        ("arrival", arrival_name(trace.meta.arrival).to_string()),
        ("start_ns", trace.meta.start_ns.to_string()),
        ("streams", serde_json::to_string(&names).unwrap_or_default()),
        ("format", trace.meta.format.clone()),
        ("content_hash", trace.content_hash().to_string()),
    ];
    let metadata = pairs.map(|(key, value)| KeyValue::new(format!("{KEY}{key}"), value)).to_vec();
    let mut p = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by(concat!("nandu ", env!("CARGO_PKG_VERSION")).into())
        .set_key_value_metadata(Some(metadata));
    for column in ["time_ns", "offset_bytes", "service_ns"] {
        let path = ColumnPath::from(column);
        p = p.set_column_dictionary_enabled(path.clone(), false);
        p = p.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    p.build()
}

fn write_group<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    records: &[Record],
    service: Option<&[nandu_base::Span]>,
) -> Result<(), ParquetError> {
    let ops = Op::ALL.map(|op| ByteArray::from(op.name()));
    let map64 = |f: fn(&Record) -> u64| records.iter().map(|r| f(r) as i64).collect::<Vec<i64>>();
    write_column::<Int64Type, _>(group, &map64(|r| r.time().0))?;
    let column: Vec<ByteArray> = records.iter().map(|r| ops[r.op() as usize].clone()).collect();
    write_column::<ByteArrayType, _>(group, &column)?;
    write_column::<BoolType, _>(group, &records.iter().map(|r| r.fua()).collect::<Vec<bool>>())?;
    write_column::<Int64Type, _>(group, &map64(|r| r.offset().0))?;
    write_column::<Int64Type, _>(group, &map64(|r| r.len().0))?;
    let column: Vec<i32> = records.iter().map(|r| i32::from(r.stream())).collect();
    write_column::<Int32Type, _>(group, &column)?;
    if let Some(service) = service {
        let column = service.iter().map(|s| i64::try_from(s.0).unwrap_or(i64::MAX)).collect::<Vec<i64>>();
        write_column::<Int64Type, _>(group, &column)?;
    }
    Ok(())
}

fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.ok_or_else(|| ParquetError::General("a column too many".into()))?;
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

const fn arrival_name(arrival: Arrival) -> &'static str {
    match arrival {
        Arrival::Timestamps => "timestamps",
        Arrival::GapAfterCompletion => "gap-after-completion",
        Arrival::OrderOnly => "order-only",
    }
}

/// Errors of one file.
struct Reader<'a> {
    source_name: &'a str,
    file_bytes: i64,
}

impl Reader<'_> {
    fn corrupt(&self, detail: impl ToString) -> TraceError {
        let detail = detail.to_string();
        TraceError::Corrupt { source_name: self.source_name.into(), compression: "parquet", detail }
    }

    /// The library takes the places of a chunk on trust and panics on negative ones: they must lie in the file.
    fn check_place(&self, chunk: &ColumnChunkMetaData, rows: i64) -> Result<(), TraceError> {
        let starts =
            [Some(chunk.data_page_offset()), chunk.dictionary_page_offset(), chunk.index_page_offset()];
        let inside = |start: i64| start >= 0 && start <= self.file_bytes;
        let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
        let end = start.checked_add(chunk.compressed_size()).filter(|_| chunk.compressed_size() >= 0);
        let sized = chunk.num_values() == rows && chunk.uncompressed_size() >= 0;
        if starts.into_iter().flatten().all(inside) && end.is_some_and(inside) && sized {
            return Ok(());
        }
        Err(self.corrupt(format!("column `{}` lies outside the file", chunk.column_path())))
    }

    /// The column `name` of a row group as a reader of `T`.
    fn column<T: DataType>(
        &self,
        group: &dyn RowGroupReader,
        name: &'static str,
        pick: fn(ColumnReader) -> Option<ColumnReaderImpl<T>>,
    ) -> Result<Column<T>, TraceError> {
        let schema = group.metadata().schema_descr();
        let Some(i) = (0..schema.num_columns()).find(|&i| schema.column(i).path().string() == name) else {
            return Err(self.corrupt(format!("there is no column `{name}`; a trace has {}", FORMAT.summary)));
        };
        self.check_place(group.metadata().column(i), group.metadata().num_rows())?;
        let (max_def, max_rep) = (schema.column(i).max_def_level(), schema.column(i).max_rep_level());
        let reader = group.get_column_reader(i).map_err(|e| self.corrupt(e))?;
        let reader = pick(reader).filter(|_| max_rep == 0).ok_or_else(|| {
            self.corrupt(format!("column `{name}` has another type; a trace has {}", FORMAT.summary))
        })?;
        Ok(Column { name, reader, nullable: max_def > 0, values: Vec::new() })
    }
}

/// One column under way.
struct Column<T: DataType> {
    name: &'static str,
    reader: ColumnReaderImpl<T>,
    nullable: bool,
    values: Vec<T::T>,
}

impl<T: DataType> Column<T> {
    /// Reads up to `rows` values into `values`; a null is an error.
    fn fill(&mut self, rows: usize, r: &Reader<'_>) -> Result<(), TraceError> {
        self.values.clear();
        let mut levels = Vec::new();
        while self.values.len() < rows {
            let wanted = rows - self.values.len();
            let definition = self.nullable.then_some(&mut levels);
            let read = self.reader.read_records(wanted, definition, None, &mut self.values);
            let (records, values, _) = read.map_err(|e| r.corrupt(e))?;
            if records != values {
                return Err(
                    r.corrupt(format!("column `{}` holds a null; every request has a value", self.name))
                );
            }
            if records == 0 {
                return Err(r.corrupt(format!("column `{}` is shorter than the others", self.name)));
            }
        }
        Ok(())
    }
}

fn int64(c: ColumnReader) -> Option<ColumnReaderImpl<Int64Type>> {
    match c {
        ColumnReader::Int64ColumnReader(c) => Some(c),
        _ => None,
    }
}

fn int32(c: ColumnReader) -> Option<ColumnReaderImpl<Int32Type>> {
    match c {
        ColumnReader::Int32ColumnReader(c) => Some(c),
        _ => None,
    }
}

fn text(c: ColumnReader) -> Option<ColumnReaderImpl<ByteArrayType>> {
    match c {
        ColumnReader::ByteArrayColumnReader(c) => Some(c),
        _ => None,
    }
}

fn boolean(c: ColumnReader) -> Option<ColumnReaderImpl<BoolType>> {
    match c {
        ColumnReader::BoolColumnReader(c) => Some(c),
        _ => None,
    }
}

/// Reads a trace from the bytes of a Parquet file. A panic of the library is returned as damage.
pub(crate) fn read(bytes: Vec<u8>, source_name: &str, options: &LoadOptions) -> Result<Trace, TraceError> {
    let work = std::panic::AssertUnwindSafe(|| read_file(bytes, source_name, options));
    std::panic::catch_unwind(work).unwrap_or_else(|_| {
        let r = Reader { source_name, file_bytes: 0 };
        Err(r.corrupt("the Parquet library gave up on it"))
    })
}

fn read_file(bytes: Vec<u8>, source_name: &str, options: &LoadOptions) -> Result<Trace, TraceError> {
    let r = Reader { source_name, file_bytes: i64::try_from(bytes.len()).unwrap_or(i64::MAX) };
    let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).map_err(|e| r.corrupt(e))?;
    let pairs = file.metadata().file_metadata().key_value_metadata();
    let value = |key: &str| {
        let found = pairs?.iter().find(|kv| kv.key.strip_prefix(KEY) == Some(key));
        found.and_then(|kv| kv.value.clone())
    };
    if let Some(version) = value("schema").filter(|v| v != SCHEMA_VERSION) {
        return Err(r.corrupt(format!("schema version {version}; this program reads {SCHEMA_VERSION}")));
    }
    let arrivals = [Arrival::Timestamps, Arrival::GapAfterCompletion, Arrival::OrderOnly];
    let named = |a: &Arrival| value("arrival").as_deref() == Some(arrival_name(*a));
    let arrival = arrivals.into_iter().find(named).unwrap_or_default();
    let mut rows = Rows {
        builder: Builder::new(arrival, options.keep_service),
        names: value("streams").and_then(|v| serde_json::from_str(&v).ok()).unwrap_or_default(),
        meta: Meta {
            format: FORMAT.name.into(),
            source: source_name.into(),
            compression: "plain".into(),
            origin: if value("origin").as_deref() == Some("stand-in") {
                Origin::StandIn
            } else {
                options.origin
            },
            ..Meta::default()
        },
        index: 0,
    };
    let limit = options.limit.unwrap_or(u64::MAX);
    for group in 0..file.num_row_groups() {
        if rows.builder.len() as u64 >= limit {
            break;
        }
        let group = file.get_row_group(group).map_err(|e| r.corrupt(e))?;
        read_group(&r, group.as_ref(), &mut rows, options, limit)?;
    }
    if rows.builder.is_empty() {
        return Err(TraceError::Empty { source_name: source_name.into(), example: FORMAT.example });
    }
    let mut trace = rows.builder.finish(rows.meta);
    if let Some(start) = value("start_ns").and_then(|v| v.parse().ok()) {
        trace.meta.start_ns = trace.meta.start_ns.saturating_add(start);
    }
    crate::known::name_origin(&mut trace);
    Ok(trace)
}

/// What is collected over all row groups.
struct Rows {
    builder: Builder,
    names: Vec<String>,
    meta: Meta,
    index: u64,
}

fn read_group(
    r: &Reader<'_>,
    group: &dyn RowGroupReader,
    rows: &mut Rows,
    options: &LoadOptions,
    limit: u64,
) -> Result<(), TraceError> {
    let mut time = r.column(group, "time_ns", int64)?;
    let mut op = r.column(group, "op", text)?;
    let mut fua = r.column(group, "fua", boolean)?;
    let mut offset = r.column(group, "offset_bytes", int64)?;
    let mut len = r.column(group, "len_bytes", int64)?;
    let mut stream = optional(r.column(group, "stream", int32), group, "stream")?;
    let mut service = optional(r.column(group, "service_ns", int64), group, "service_ns")?;
    let total =
        usize::try_from(group.metadata().num_rows()).map_err(|_| r.corrupt("a negative row count"))?;
    let mut done = 0;
    while done < total && (rows.builder.len() as u64) < limit {
        let n = ROWS_PER_BATCH.min(total - done);
        time.fill(n, r)?;
        op.fill(n, r)?;
        fua.fill(n, r)?;
        offset.fill(n, r)?;
        len.fill(n, r)?;
        if let Some(c) = &mut stream {
            c.fill(n, r)?;
        }
        if let Some(c) = &mut service {
            c.fill(n, r)?;
        }
        for i in 0..n {
            if rows.builder.len() as u64 >= limit {
                break;
            }
            let row = RawRow {
                time: time.values[i],
                op: op.values[i].data(),
                fua: fua.values[i],
                offset: offset.values[i],
                len: len.values[i],
                stream: stream.as_ref().map_or(0, |c| c.values[i]),
                service: service.as_ref().map(|c| c.values[i]),
            };
            match (push(&mut rows.builder, &rows.names, &row), options.bad_lines) {
                (Ok(()), _) => {}
                (Err(why), BadLines::Stop) => return Err(r.corrupt(format!("row {}: {why}", rows.index))),
                (Err(why), BadLines::Skip) => {
                    rows.meta.skipped_lines += 1;
                    if rows.meta.skipped_first.len() < 5 {
                        rows.meta.skipped_first.push(format!("{}: row {}: {why}", r.source_name, rows.index));
                    }
                }
            }
            rows.index += 1;
        }
        done += n;
    }
    Ok(())
}

/// A column that may be missing, but not be of another type.
fn optional<T: DataType>(
    column: Result<Column<T>, TraceError>,
    group: &dyn RowGroupReader,
    name: &str,
) -> Result<Option<Column<T>>, TraceError> {
    let schema = group.metadata().schema_descr();
    let exists = (0..schema.num_columns()).any(|i| schema.column(i).path().string() == name);
    match column {
        Err(_) if !exists => Ok(None),
        other => other.map(Some),
    }
}

struct RawRow<'a> {
    time: i64,
    op: &'a [u8],
    fua: bool,
    offset: i64,
    len: i64,
    stream: i32,
    service: Option<i64>,
}

fn push(builder: &mut Builder, names: &[String], row: &RawRow<'_>) -> Result<(), String> {
    let op = Op::ALL.into_iter().find(|op| op.name().as_bytes() == row.op).ok_or_else(|| {
        format!("op: `{}`; expected one of {}", row.op.escape_ascii(), Op::ALL.map(Op::name).join(", "))
    })?;
    let positive = |n: i64, column: &str| u64::try_from(n).map_err(|_| format!("{column}: {n} is negative"));
    let (time_ns, offset) = (positive(row.time, "time_ns")?, positive(row.offset, "offset_bytes")?);
    let len = positive(row.len, "len_bytes")?;
    let service = row.service.map(|s| positive(s, "service_ns")).transpose()?;
    let stream = positive(row.stream.into(), "stream")?;
    let bounds = |e: RecordError| e.to_string();
    // Streams keep the numbers of the file while they are named in order; else they are numbered as they come.
    let stream = match names.get(stream as usize) {
        Some(name) => builder.stream_named(name.as_bytes()).map_err(bounds)?,
        None => builder.stream(stream).map_err(bounds)?,
    };
    let line = Line { time_ns, op, fua: row.fua, offset_sectors: 0, len_sectors: 0, stream };
    builder.push_bytes(0, line, offset, len).map_err(|fault| match fault.why {
        Why::Bounds(why) => why.to_string(),
        why => format!("{}: {why}", fault.field),
    })?;
    if let Some(ns) = service {
        builder.push_service(ns);
    }
    Ok(())
}

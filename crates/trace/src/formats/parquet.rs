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
//! names), `.format` (of the source), `.content_hash`. A time whose type says its unit (TIMESTAMP, TIME) is in that unit whatever its
//! column is called; a DECIMAL with digits behind the point, and a time where no time belongs, are errors. Files by others need no metadata, and the columns for time, operation,
//! offset and length; others are described by [`Columns`]. Any integer type is read, and any compression of the
//! library. Nulls are errors. Columns are written with zstd, and read page by page.
//!
//! The Parquet library panics on some damaged pages. That is caught and returned as damage, which is why no profile of
//! the workspace aborts on a panic.

use super::{Format, Kind, Tried, no_note};
use crate::builder::{Builder, Line};
use crate::columns::{Columns, OpForm, Role, no_unit};
use crate::error::{TraceError, Why};
use crate::load::LoadOptions;
use crate::record::{Record, RecordError};
use crate::requests::Requests;
use crate::trace::{Arrival, Meta, Origin};
use crate::write::WriteReport;
use nandu_base::BadLines;
use nandu_base::Op;
use parquet::basic::{Compression, ConvertedType, Encoding, LogicalType, TimeUnit, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnDescriptor, ColumnPath};
use std::fs::File;
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

/// Rows of a group, as many as other writers take: what the library keeps of each group until the file ends, some 6 KiB, is little beside them.
const ROWS_PER_GROUP: usize = 1 << 20;
const ROWS_PER_BATCH: usize = 1 << 14;
const KEY: &str = "nandu.trace.";

/// Writes all records; Parquet has a word for everything, so nothing is lost but what reading did not keep.
pub(crate) fn write(trace: &Requests, out: &mut (dyn Write + Send)) -> Result<WriteReport, TraceError> {
    let failed = |e: ParquetError| TraceError::Io {
        source_name: "parquet output".into(),
        error: std::io::Error::other(e.to_string()),
    };
    let service = if trace.service().is_some() { "REQUIRED INT64 service_ns;" } else { "" };
    let schema = format!(
        "message trace {{ REQUIRED INT64 time_ns; REQUIRED BYTE_ARRAY op (UTF8); REQUIRED BOOLEAN fua; \
         REQUIRED INT64 offset_bytes; REQUIRED INT64 len_bytes; REQUIRED INT32 stream; {service} }}"
    );
    let schema = Arc::new(parse_message_type(&schema).map_err(failed)?);
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties(trace))).map_err(failed)?;
    let (mut reader, mut records, mut written) = (trace.reader(), Vec::with_capacity(ROWS_PER_GROUP), 0);
    loop {
        records.clear();
        reader.fill(&mut records, ROWS_PER_GROUP);
        if records.is_empty() {
            break;
        }
        let service = trace.service().map(|service| &service[written..][..records.len()]);
        let mut row_group = writer.next_row_group().map_err(failed)?;
        write_group(&mut row_group, &records, service).map_err(failed)?;
        row_group.close().map_err(failed)?;
        written += records.len();
    }
    writer.close().map_err(failed)?;
    let unread_response_times = trace.meta().unread_response_times;
    Ok(WriteReport { requests: trace.len(), unread_response_times, ..WriteReport::default() })
}

fn properties(trace: &Requests) -> WriterProperties {
    let names: Vec<&str> = trace.streams().iter().map(|s| s.name.as_str()).collect();
    let pairs = [
        ("schema", SCHEMA_VERSION.to_string()),
        ("origin", trace.meta().origin.name().to_string()),
        ("arrival", arrival_name(trace.meta().arrival).to_string()),
        ("start_ns", trace.meta().start_ns.to_string()),
        ("streams", serde_json::to_string(&names).unwrap_or_default()),
        ("format", trace.meta().format.clone()),
        ("content_hash", trace.content_hash().to_string()),
    ];
    let metadata = pairs.map(|(key, value)| KeyValue::new(format!("{KEY}{key}"), value)).to_vec();
    let mut p = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        // What is said of each page lies in memory until the file ends; of a column of 2^18 rows it is said anyway.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
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
    write_column::<Int64Type, _, _>(group, records, |r| r.time().0 as i64)?;
    write_column::<ByteArrayType, _, _>(group, records, |r| ops[r.op() as usize].clone())?;
    write_column::<BoolType, _, _>(group, records, |r| r.fua())?;
    write_column::<Int64Type, _, _>(group, records, |r| r.offset().0 as i64)?;
    write_column::<Int64Type, _, _>(group, records, |r| r.len().0 as i64)?;
    write_column::<Int32Type, _, _>(group, records, |r| i32::from(r.stream()))?;
    if let Some(service) = service {
        write_column::<Int64Type, _, _>(group, service, |s| i64::try_from(s.0).unwrap_or(i64::MAX))?;
    }
    Ok(())
}

/// The column of what `value` says of each of `rows`, a batch after the other.
fn write_column<T: DataType, R, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[R],
    value: impl Fn(&R) -> T::T,
) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.ok_or_else(|| ParquetError::General("a column too many".into()))?;
    let mut values = Vec::with_capacity(ROWS_PER_BATCH.min(rows.len()));
    for batch in rows.chunks(ROWS_PER_BATCH) {
        values.clear();
        values.extend(batch.iter().map(&value));
        column.typed::<T>().write_batch(&values, None, None)?;
    }
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

    fn column(&self, name: &str, why: impl Into<String>) -> TraceError {
        TraceError::Column { source_name: self.source_name.into(), column: name.into(), why: why.into() }
    }

    /// The column number `at` of a row group, which means `role`.
    fn open(&self, group: &dyn RowGroupReader, at: usize, role: Role) -> Result<Column, TraceError> {
        let descr = group.metadata().schema_descr().column(at);
        let name = descr.path().string();
        self.check_place(group.metadata().column(at), group.metadata().num_rows())?;
        let reader = group.get_column_reader(at).map_err(|e| self.corrupt(e))?;
        let data = match reader {
            ColumnReader::Int32ColumnReader(c) => Data::Int32(c, Vec::new()),
            ColumnReader::Int64ColumnReader(c) => Data::Int64(c, Vec::new()),
            ColumnReader::ByteArrayColumnReader(c) => Data::Text(c, Vec::new()),
            ColumnReader::BoolColumnReader(c) => Data::Bool(c, Vec::new()),
            _ => {
                return Err(
                    self.column(&name, format!("{} cannot be read; {INSTEAD}", descr.physical_type()))
                );
            }
        };
        let fits = match (role, &data) {
            (Role::Op(_) | Role::Stream, data) => !matches!(data, Data::Bool(..)),
            (Role::Fua, data) => !matches!(data, Data::Text(..)),
            (_, data) => matches!(data, Data::Int32(..) | Data::Int64(..)),
        };
        if !fits || descr.max_rep_level() > 0 {
            return Err(self.column(&name, format!("it holds {}; {INSTEAD}", descr.physical_type())));
        }
        let unsigned = matches!(
            descr.converted_type(),
            ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
        );
        Ok(Column { name, role, data, nullable: descr.max_def_level() > 0, unsigned })
    }
}

const INSTEAD: &str =
    "times, offsets and sizes are integers, operations words or integers; cast it where the file is written";

/// One column under way.
struct Column {
    name: String,
    role: Role,
    data: Data,
    nullable: bool,
    unsigned: bool,
}

/// Reader and values of the present batch.
enum Data {
    Int32(ColumnReaderImpl<Int32Type>, Vec<i32>),
    Int64(ColumnReaderImpl<Int64Type>, Vec<i64>),
    Text(ColumnReaderImpl<ByteArrayType>, Vec<ByteArray>),
    Bool(ColumnReaderImpl<BoolType>, Vec<bool>),
}

/// Reads `rows` values into `values`; a null is an error.
fn fill<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    values: &mut Vec<T::T>,
    (name, nullable): (&str, bool),
    rows: usize,
    r: &Reader<'_>,
) -> Result<(), TraceError> {
    values.clear();
    let mut levels = Vec::new();
    while values.len() < rows {
        let wanted = rows - values.len();
        let definition = nullable.then_some(&mut levels);
        let (records, read, _) =
            reader.read_records(wanted, definition, None, values).map_err(|e| r.corrupt(e))?;
        if records != read {
            return Err(r.column(name, "it holds a null; every request has a value"));
        }
        if records == 0 {
            return Err(r.corrupt(format!("column `{name}` is shorter than the others")));
        }
    }
    Ok(())
}

impl Column {
    fn fill(&mut self, rows: usize, r: &Reader<'_>) -> Result<(), TraceError> {
        let what = (self.name.as_str(), self.nullable);
        match &mut self.data {
            Data::Int32(c, values) => fill(c, values, what, rows, r),
            Data::Int64(c, values) => fill(c, values, what, rows, r),
            Data::Text(c, values) => fill(c, values, what, rows, r),
            Data::Bool(c, values) => fill(c, values, what, rows, r),
        }
    }

    /// The whole number in row `i`.
    fn number(&self, i: usize) -> Result<u64, String> {
        let signed = match &self.data {
            Data::Int32(_, v) if self.unsigned => return Ok(u64::from(v[i] as u32)),
            Data::Int64(_, v) if self.unsigned => return Ok(v[i] as u64),
            Data::Int32(_, v) => i64::from(v[i]),
            Data::Int64(_, v) => v[i],
            Data::Bool(_, v) => return Ok(u64::from(v[i])),
            Data::Text(..) => return Err(format!("{}: a text is not a number", self.name)),
        };
        u64::try_from(signed).map_err(|_| format!("{}: {signed} is negative", self.name))
    }

    /// The number in row `i` times the `unit`.
    fn scaled(&self, i: usize, unit: u64) -> Result<u64, String> {
        let number = self.number(i)?;
        number
            .checked_mul(unit)
            .ok_or_else(|| format!("{}: {number} does not fit 64 bits in its unit", self.name))
    }
}

/// Which column of a file is what, in the order of their meaning.
fn roles(
    r: &Reader<'_>,
    schema: &parquet::schema::types::SchemaDescriptor,
    columns: Option<&Columns>,
) -> Result<Vec<(usize, Role)>, TraceError> {
    let names: Vec<String> = (0..schema.num_columns()).map(|i| schema.column(i).path().string()).collect();
    let missing = |name: &str| {
        let why = format!(
            "there is none; the file has {}, and a trace of this program {}; --columns says which is what, for example \
             --columns time:us=ts,op=kind,offset:sectors=lba,size=bytes",
            names.join(", "),
            OWN.map(|(name, _, _)| name).join(", ")
        );
        r.column(name, why)
    };
    let at = |wanted: &str| names.iter().position(|n| n == wanted);
    let mut out = Vec::new();
    match columns {
        None => {
            for (name, role, needed) in OWN {
                match at(name) {
                    Some(at) => out.push((at, r.typed(&schema.column(at), role, None)?)),
                    None if needed => return Err(missing(name)),
                    None => {}
                }
            }
        }
        Some(columns) => {
            for (place, column) in columns.list.iter().enumerate() {
                let at = match &column.name {
                    Some(name) => at(name).ok_or_else(|| missing(name))?,
                    None if place < names.len() => place,
                    None => {
                        return Err(r.column(
                            &format!("number {}", place + 1),
                            format!("the file has {}", names.len()),
                        ));
                    }
                };
                let role = match column.role {
                    Role::Ignored => continue,
                    role => r.typed(&schema.column(at), role, Some(column.has_unit))?,
                };
                out.push((at, role));
            }
        }
    }
    // Streams and times are known before the request is put together.
    out.sort_by_key(|(_, role)| matches!(role, Role::Op(_)));
    Ok(out)
}

/// What the type of a column says beside its bits.
enum Says {
    /// Nothing that changes the number.
    Plain,
    /// So many nanoseconds to one; called like this.
    Time(u64, &'static str),
    /// The number is not what the bits are; called like this.
    Other(&'static str),
    /// So many digits stand behind the point.
    Decimals(i32),
}

impl Says {
    fn of(column: &ColumnDescriptor) -> Says {
        const NAMES: [(u64, &str); 3] =
            [(1_000_000, "milliseconds"), (1_000, "microseconds"), (1, "nanoseconds")];
        let time = |unit: &TimeUnit| {
            let (ns, name) = NAMES[match unit {
                TimeUnit::MILLIS => 0,
                TimeUnit::MICROS => 1,
                TimeUnit::NANOS => 2,
            }];
            Says::Time(ns, name)
        };
        match column.logical_type_ref() {
            Some(LogicalType::Timestamp(of)) => return time(&of.unit),
            Some(LogicalType::Time(of)) => return time(&of.unit),
            Some(LogicalType::Decimal(of)) => return Says::Decimals(of.scale),
            Some(LogicalType::Date) => return Says::Other("a DATE"),
            _ => {}
        }
        match column.converted_type() {
            ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIME_MILLIS => time(&TimeUnit::MILLIS),
            ConvertedType::TIMESTAMP_MICROS | ConvertedType::TIME_MICROS => time(&TimeUnit::MICROS),
            ConvertedType::DECIMAL => Says::Decimals(column.type_scale()),
            ConvertedType::DATE => Says::Other("a DATE"),
            _ => Says::Plain,
        }
    }
}

impl Reader<'_> {
    /// What a column is for, in the unit that its type says. `has_unit` says whether one was given where columns are described;
    /// a file in our columns has none to give.
    fn typed(
        &self,
        column: &ColumnDescriptor,
        role: Role,
        has_unit: Option<bool>,
    ) -> Result<Role, TraceError> {
        let name = column.path().string();
        let refuse = |why: String| Err(self.column(&name, why));
        match (Says::of(column), role) {
            (Says::Decimals(scale), _) if scale != 0 => refuse(format!(
                "it holds DECIMAL with {scale} digits behind the point; {INSTEAD}, in a unit in which they are whole"
            )),
            (Says::Plain | Says::Decimals(_), Role::Time(1)) if has_unit == Some(false) => {
                Err(no_unit(self.source_name, &name))
            }
            (Says::Plain | Says::Decimals(_), role) => Ok(role),
            (Says::Other(what), _) => refuse(format!("it holds {what}; {INSTEAD}")),
            (Says::Time(ns, unit), Role::Time(given) | Role::Service(given)) => match has_unit {
                Some(true) if given != ns => refuse(format!(
                    "its type says {unit}, and --columns another unit; leave the unit out, or write the one of the type"
                )),
                _ if matches!(role, Role::Service(_)) => Ok(Role::Service(ns)),
                _ => Ok(Role::Time(ns)),
            },
            (Says::Time(_, unit), _) => refuse(format!("it holds times in {unit}; {INSTEAD}")),
        }
    }
}

/// The columns of a file written here, and which of them must be there.
const OWN: [(&str, Role, bool); 7] = [
    ("time_ns", Role::Time(1), true),
    ("op", Role::Op(OpForm::Words), true),
    ("fua", Role::Fua, false),
    ("offset_bytes", Role::Offset(1), true),
    ("len_bytes", Role::Size(1), true),
    ("stream", Role::Stream, false),
    ("service_ns", Role::Service(1), false),
];

/// Reads the requests of a Parquet file; more than `held` are put aside. A panic of the library is returned as damage.
pub(crate) fn read(
    file: File,
    source_name: &str,
    options: &LoadOptions,
    held: u64,
) -> Result<Requests, TraceError> {
    let work = std::panic::AssertUnwindSafe(|| read_file(file, source_name, options, held));
    std::panic::catch_unwind(work).unwrap_or_else(|_| {
        let r = Reader { source_name, file_bytes: 0 };
        Err(r.corrupt("the Parquet library gave up on it"))
    })
}

fn read_file(
    file: File,
    source_name: &str,
    options: &LoadOptions,
    held: u64,
) -> Result<Requests, TraceError> {
    let len =
        file.metadata().map_err(|error| TraceError::Io { source_name: source_name.into(), error })?.len();
    let r = Reader { source_name, file_bytes: i64::try_from(len).unwrap_or(i64::MAX) };
    let file = SerializedFileReader::new(file).map_err(|e| r.corrupt(e))?;
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
    let recorded = arrivals.into_iter().find(named).unwrap_or_default();
    let arrival = match &options.columns {
        Some(columns) if !columns.list.iter().any(|c| matches!(c.role, Role::Time(_))) => Arrival::OrderOnly,
        Some(_) => Arrival::Timestamps,
        None => recorded,
    };
    let mut rows = Rows {
        builder: Builder::new(arrival, options.keep_service).holding(held),
        names: value("streams").and_then(|v| serde_json::from_str(&v).ok()).unwrap_or_default(),
        meta: Meta {
            format: FORMAT.name.into(),
            source: source_name.into(),
            compression: "plain".into(),
            origin: if matches!(value("origin").as_deref(), Some("synthetic" | "stand-in")) {
                Origin::StandIn
            } else {
                options.origin
            },
            start_ns: value("start_ns").and_then(|v| v.parse().ok()).unwrap_or(0),
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
    rows.builder.finish_requests(rows.meta)
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
    let schema = group.metadata().schema_descr();
    let roles = roles(r, schema, options.columns.as_ref())?;
    let mut columns =
        roles.into_iter().map(|(at, role)| r.open(group, at, role)).collect::<Result<Vec<_>, _>>()?;
    let total =
        usize::try_from(group.metadata().num_rows()).map_err(|_| r.corrupt("a negative row count"))?;
    let mut done = 0;
    while done < total && (rows.builder.len() as u64) < limit {
        let n = ROWS_PER_BATCH.min(total - done);
        columns.iter_mut().try_for_each(|column| column.fill(n, r))?;
        for i in 0..n {
            if rows.builder.len() as u64 >= limit {
                break;
            }
            match (push(rows, &columns, options.columns.as_ref(), i), options.bad_lines) {
                (Ok(()), _) => {}
                (Err(why), BadLines::Stop) => {
                    let (source_name, row) = (r.source_name.into(), rows.index);
                    return Err(TraceError::Row { source_name, row, why });
                }
                (Err(why), BadLines::Skip) => {
                    rows.meta.skipped_lines += 1;
                    if rows.meta.skipped_first.len() < 5 {
                        rows.meta.skipped_first.push(format!("{}: row {}: {why}", r.source_name, rows.index));
                    }
                }
            }
            rows.index += 1;
        }
        rows.builder.settle(r.source_name)?;
        done += n;
    }
    Ok(())
}

fn push(rows: &mut Rows, columns: &[Column], described: Option<&Columns>, i: usize) -> Result<(), String> {
    let builder = &mut rows.builder;
    let bounds = |e: RecordError| e.to_string();
    let mut line =
        Line { time_ns: 0, op: Op::Read, fua: false, offset_sectors: 0, len_sectors: 0, stream: 0 };
    let (mut offset, mut len, mut service, mut stream) = (0, 0, None, None);
    for column in columns {
        match column.role {
            Role::Time(unit) => line.time_ns = column.scaled(i, unit)?,
            Role::Service(unit) => service = Some(column.scaled(i, unit)?),
            Role::Offset(unit) => offset = column.scaled(i, unit)?,
            Role::Size(unit) => len = column.scaled(i, unit)?,
            Role::Fua => line.fua = column.number(i)? != 0,
            Role::Op(form) => line.op = op_of(column, form, described, i)?,
            Role::Stream => stream = Some(column),
            Role::Ignored => {}
        }
    }
    line.stream = match stream.map(|column| (&column.data, column)) {
        None => builder.stream(0).map_err(bounds)?,
        Some((Data::Text(_, values), _)) => builder.stream_named(values[i].data()).map_err(bounds)?,
        Some((_, column)) => {
            let number = column.number(i)?;
            // Streams keep the numbers of the file while they are named in order; else they are numbered as they come.
            match usize::try_from(number).ok().and_then(|n| rows.names.get(n)) {
                Some(name) => builder.stream_named(name.as_bytes()).map_err(bounds)?,
                None => builder.stream(number).map_err(bounds)?,
            }
        }
    };
    if described.is_some() && line.op == Op::Flush {
        (offset, len) = (0, 0);
    }
    builder.push_bytes(0, line, offset, len).map_err(|fault| match fault.why {
        Why::Bounds(why) => why.to_string(),
        why => format!("{}: {why}", fault.field),
    })?;
    if let Some(ns) = service {
        builder.push_service(ns);
    }
    Ok(())
}

/// The operation in row `i`. Without a description only the full words stand for one.
fn op_of(column: &Column, form: OpForm, described: Option<&Columns>, i: usize) -> Result<Op, String> {
    let (op, shown, expected) = match (&column.data, described) {
        (Data::Text(_, values), None) => {
            let word = values[i].data();
            let op = Op::ALL.into_iter().find(|op| op.name().as_bytes() == word);
            (op, word.escape_ascii().to_string(), format!("one of {}", Op::ALL.map(Op::name).join(", ")))
        }
        (Data::Text(_, values), Some(columns)) => {
            let word = values[i].data();
            (columns.op(form, word), word.escape_ascii().to_string(), Columns::expected(form).into())
        }
        (_, Some(columns)) => {
            let number = column.number(i)?;
            let word = if form == OpForm::Scsi { format!("{number:02x}") } else { number.to_string() };
            (columns.op(form, word.as_bytes()), word, Columns::expected(form).into())
        }
        (_, None) => (
            None,
            column.number(i)?.to_string(),
            "a word; --columns with op:read0 or op:read1 reads numbers".into(),
        ),
    };
    op.ok_or_else(|| format!("{}: `{shown}`; expected {expected}", column.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::parse_bytes;
    use crate::trace::Trace;

    /// Two requests in columns of these types for time, offset, size and response time; times of 0 and 7, all else 8,192.
    fn file(types: [&str; 4]) -> Vec<u8> {
        let [time, offset, size, service] = types;
        let schema = format!(
            "message trace {{ REQUIRED INT64 time_ns {time}; REQUIRED BYTE_ARRAY op (UTF8); \
             REQUIRED INT64 offset_bytes {offset}; REQUIRED INT64 len_bytes {size}; REQUIRED INT64 service_ns {service}; }}"
        );
        let schema = Arc::new(parse_message_type(&schema).unwrap());
        let mut out = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut out, schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let words = [ByteArray::from("read"), ByteArray::from("write")];
        write_column::<Int64Type, _, _>(&mut group, &[0, 7], |n| *n).unwrap();
        write_column::<ByteArrayType, _, _>(&mut group, &words, |w| w.clone()).unwrap();
        for _ in 0..3 {
            write_column::<Int64Type, _, _>(&mut group, &[8192, 8192], |n| *n).unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
        out
    }

    fn read(types: [&str; 4], columns: Option<&str>) -> Result<Trace, String> {
        let columns = columns.map(|columns| columns.parse().unwrap());
        let options = LoadOptions { columns, ..LoadOptions::default() };
        parse_bytes(None, &file(types), options).map_err(|e| e.to_string())
    }

    #[test]
    fn a_row_that_is_wrong_is_named_and_no_damage() {
        // Its operations are words where numbers are described.
        let columns = "time:ns=time_ns,op:read0=op,offset=offset_bytes,size=len_bytes";
        let why = read(["", "", "", ""], Some(columns)).unwrap_err();
        assert!(why.contains("row 0: op: `read`; expected") && !why.contains("damaged"), "{why}");
    }

    const MICROS: &str = "(TIMESTAMP(MICROS,true))";

    #[test]
    fn a_time_is_in_the_unit_of_its_type() {
        for (of, ns) in [
            ("", 1),
            ("(TIMESTAMP(NANOS,true))", 1),
            (MICROS, 1_000),
            ("(TIMESTAMP(MILLIS,false))", 1_000_000),
            ("(TIMESTAMP_MICROS)", 1_000),
            ("(TIME(MICROS,true))", 1_000),
            ("(DECIMAL(18,0))", 1),
        ] {
            let trace = read([of, "", "", of], None).unwrap_or_else(|e| panic!("{of}: {e}"));
            assert_eq!(trace.records[1].time().0, 7 * ns, "{of}");
            assert_eq!(trace.service.unwrap()[1].0, 8192 * ns, "{of}");
            assert_eq!((trace.records[1].offset().0, trace.records[1].len().0), (8192, 8192));
        }
        let named = |unit: &str| format!("time{unit}=time_ns,op=op,offset=offset_bytes,size=len_bytes");
        for unit in ["", ":us"] {
            let trace = read([MICROS, "", "", ""], Some(&named(unit))).unwrap();
            assert_eq!(trace.records[1].time().0, 7_000);
        }
        let e = read([MICROS, "", "", ""], Some(&named(":ns"))).unwrap_err();
        assert!(e.contains("its type says microseconds"), "{e}");
        let e = read(["", "", "", ""], Some(&named(""))).unwrap_err();
        assert!(e.contains("nothing says in which unit"), "{e}");
    }

    #[test]
    fn a_type_that_makes_another_number_of_the_bits_is_refused() {
        for (types, says) in [
            (["(DECIMAL(18,6))", "", "", ""], "time_ns: it holds DECIMAL with 6 digits behind the point"),
            (["", "(DECIMAL(18,2))", "", ""], "offset_bytes: it holds DECIMAL with 2 digits"),
            (["", "", "(DECIMAL(9,3))", ""], "len_bytes: it holds DECIMAL with 3 digits"),
            (["", "", "", "(DECIMAL(9,3))"], "service_ns: it holds DECIMAL with 3 digits"),
            (["", MICROS, "", ""], "offset_bytes: it holds times in microseconds"),
            (["", "", "(TIME(NANOS,true))", ""], "len_bytes: it holds times in nanoseconds"),
        ] {
            let e = read(types, None).expect_err(says);
            assert!(e.contains("cast it where the file is written"), "{e}");
            assert!(e.replace(['`', '"'], "").contains(says), "{says}: {e}");
        }
    }
}

//! All points as Parquet, one row each: for dataframes.
//!
//! Columns: `point`, `id`, each axis by name (text), each figure by name (whole numbers in the unit that the file's metadata
//! `nandu.sweep.units` names; null where a point has no such figure, 2^63 - 1 for a lifetime of flash that was not
//! erased), `state` (text), each bound by its text (met or not), `whole`, `kept_up`, `meets`, `front`, `best`. The same points give the same bytes.

use crate::metric::Figure;
use crate::outcome::{Outcome, Row};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// What [`Figure::Unworn`] is written as.
pub const UNWORN: i64 = i64::MAX;

fn field(name: &str, physical: Physical, optional: bool, text: bool) -> Result<Arc<Type>, ParquetError> {
    let repetition = if optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let builder = Type::primitive_type_builder(name, physical).with_repetition(repetition);
    Ok(Arc::new(builder.with_logical_type(text.then_some(LogicalType::String)).build()?))
}

fn schema(outcome: &Outcome) -> Result<Arc<Type>, ParquetError> {
    let mut fields =
        vec![field("point", Physical::INT32, false, false)?, field("id", Physical::BYTE_ARRAY, false, true)?];
    for axis in &outcome.axes {
        fields.push(field(axis, Physical::BYTE_ARRAY, false, true)?);
    }
    for column in &outcome.columns {
        fields.push(field(&column.name, Physical::INT64, true, false)?);
    }
    fields.push(field("state", Physical::BYTE_ARRAY, false, true)?);
    let bounds = outcome.bounds.iter().map(|b| b.bound.as_str());
    for name in bounds.chain(["whole", "kept_up", "meets", "front", "best"]) {
        fields.push(field(name, Physical::BOOLEAN, false, false)?);
    }
    Ok(Arc::new(Type::group_type_builder("sweep").with_fields(fields).build()?))
}

fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.ok_or_else(|| ParquetError::General("a column too many".into()))?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

/// Writes all rows of `outcome` to `out`.
pub fn write(outcome: &Outcome, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
    parquet(outcome, out).map_err(|e| std::io::Error::other(e.to_string()))
}

fn parquet(outcome: &Outcome, out: &mut (dyn Write + Send)) -> Result<(), ParquetError> {
    let units: BTreeMap<&str, &str> = outcome.columns.iter().map(|c| (c.name.as_str(), c.unit)).collect();
    let units = serde_json::to_string(&units).unwrap_or_default();
    let pairs = [("schema", outcome.schema.to_string()), ("units", units)];
    let metadata = pairs.map(|(key, value)| KeyValue::new(format!("nandu.sweep.{key}"), value)).to_vec();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by(concat!("nandu ", env!("CARGO_PKG_VERSION")).into())
        .set_key_value_metadata(Some(metadata))
        .build();
    let mut writer = SerializedFileWriter::new(out, schema(outcome)?, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    let rows = &outcome.rows;
    let texts = |of: &dyn Fn(&Row) -> String| {
        rows.iter().map(|r| ByteArray::from(of(r).as_str())).collect::<Vec<_>>()
    };
    column::<Int32Type, _>(&mut group, &rows.iter().map(|r| r.point as i32).collect::<Vec<_>>(), None)?;
    column::<ByteArrayType, _>(&mut group, &texts(&|r| r.id.to_string()), None)?;
    for axis in 0..outcome.axes.len() {
        column::<ByteArrayType, _>(&mut group, &texts(&|r| r.steps[axis].clone()), None)?;
    }
    for place in 0..outcome.columns.len() {
        let figures = || rows.iter().map(|r| r.figures[place]);
        let values: Vec<i64> = figures().flatten().map(number).collect();
        let levels: Vec<i16> = figures().map(|f| f.is_some().into()).collect();
        column::<Int64Type, _>(&mut group, &values, Some(&levels))?;
    }
    column::<ByteArrayType, _>(&mut group, &texts(&|r| r.state.name().into()), None)?;
    for bound in 0..outcome.bounds.len() {
        let met: Vec<bool> = rows.iter().map(|r| r.missed_by_thousandths[bound] == 0).collect();
        column::<BoolType, _>(&mut group, &met, None)?;
    }
    let flags: [fn(&Row) -> bool; 4] = [|r| r.whole, |r| r.kept_up, |r| r.meets, |r| r.front];
    for flag in flags {
        column::<BoolType, _>(&mut group, &rows.iter().map(flag).collect::<Vec<_>>(), None)?;
    }
    let best: Vec<bool> = rows.iter().map(|r| outcome.best == Some(r.point)).collect();
    column::<BoolType, _>(&mut group, &best, None)?;
    group.close()?;
    writer.close()?;
    Ok(())
}

fn number(figure: Figure) -> i64 {
    match figure {
        Figure::Value(value) => i64::try_from(value).unwrap_or(UNWORN - 1),
        Figure::Unworn => UNWORN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;
    use crate::outcome::{BoundResult, Column};
    use parquet::file::reader::{FileReader, SerializedFileReader};

    fn row(point: usize, step: &str, figures: [Option<Figure>; 2], missed: u64) -> Row {
        Row {
            point,
            id: Id::parse(&format!("{point:064x}")).unwrap(),
            steps: vec![step.into()],
            figures: figures.to_vec(),
            missed_by_thousandths: vec![missed],
            whole: true,
            measured: (0, 0),
            wear_is_chance: false,
            kept_up: true,
            state: nandu_sim::steady::State::Steady,
            meets: missed == 0,
            front: missed == 0,
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_the_bytes_are_the_same() {
        let column = |name: &str, unit| Column { name: name.into(), unit };
        let outcome = Outcome {
            schema: nandu_sim::result::SCHEMA,
            axes: vec!["slc.share".into()],
            columns: vec![column("p99.9", "ns"), column("lifetime", "years/1000")],
            goals: Vec::new(),
            bounds: vec![BoundResult { bound: "p99.9 <= 1 ms".into(), met_by: 1, best_point: Some(3) }],
            points: 9,
            impossible: 0,
            rows: vec![
                row(3, "0,5 \"half\"", [Some(Figure::Value(7)), Some(Figure::Unworn)], 0),
                row(8, "1", [None, Some(Figure::Value(u64::MAX))], 400),
            ],
            best: Some(3),
            ties: Vec::new(),
            nearest: None,
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.parquet");
        let mut bytes: Vec<u8> = Vec::new();
        write(&outcome, &mut bytes).unwrap();
        std::fs::write(&path, &bytes).unwrap();
        let mut again: Vec<u8> = Vec::new();
        write(&outcome, &mut again).unwrap();
        assert!(bytes == again);
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let cells = |row: parquet::record::Row| -> Vec<(String, String)> {
            row.get_column_iter().map(|(name, field)| (name.clone(), field.to_string())).collect()
        };
        let rows: Vec<Vec<(String, String)>> =
            reader.get_row_iter(None).unwrap().map(|r| cells(r.unwrap())).collect();
        let names: Vec<&str> = rows[0].iter().map(|c| c.0.as_str()).collect();
        assert_eq!(
            names,
            [
                "point",
                "id",
                "slc.share",
                "p99.9",
                "lifetime",
                "state",
                "p99.9 <= 1 ms",
                "whole",
                "kept_up",
                "meets",
                "front",
                "best"
            ]
        );
        let value =
            |row: usize, name: &str| rows[row].iter().find(|c| c.0 == name).map(|c| c.1.as_str()).unwrap();
        assert_eq!((value(0, "p99.9"), value(1, "p99.9")), ("7", "null"));
        assert_eq!(value(0, "lifetime"), UNWORN.to_string());
        assert_eq!(value(1, "lifetime"), (UNWORN - 1).to_string());
        assert_eq!((value(0, "best"), value(1, "best"), value(1, "meets")), ("true", "false", "false"));
        assert!(value(0, "slc.share").contains("half"));
    }
}

//! Our columns as a stream of one array. The buffers are those of the table, which lives until the last holder has released it.

use super::{Array, NULLABLE, Schema, Stream};
use crate::table::{Columns, Values};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// What a schema owns.
struct SchemaParts {
    _format: CString,
    _name: CString,
    children: Vec<*mut Schema>,
    dictionary: *mut Schema,
}

unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: `schema` was made by `schema()`, whose private data are the parts; children were boxed there.
    unsafe {
        let parts = Box::from_raw((*schema).private_data.cast::<SchemaParts>());
        parts.children.iter().chain([&parts.dictionary]).filter(|child| !child.is_null()).for_each(
            |&child| {
                drop(Box::from_raw(child));
            },
        );
        (*schema).release = None;
    }
}

fn schema(format: &str, name: &str, children: Vec<Schema>, dictionary: Option<Schema>) -> Schema {
    let text = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
    let boxed = |schema| Box::into_raw(Box::new(schema));
    let mut parts = Box::new(SchemaParts {
        _format: text(format),
        _name: text(name),
        children: children.into_iter().map(boxed).collect(),
        dictionary: dictionary.map_or(null_mut(), boxed),
    });
    Schema {
        format: parts._format.as_ptr(),
        name: parts._name.as_ptr(),
        metadata: null(),
        flags: NULLABLE,
        n_children: parts.children.len() as i64,
        children: parts.children.as_mut_ptr(),
        dictionary: parts.dictionary,
        release: Some(release_schema),
        private_data: Box::into_raw(parts).cast(),
    }
}

fn schema_of(columns: &Columns) -> Schema {
    let field = |name: &str, values: &Values| match values {
        Values::I64(_) => schema("l", name, Vec::new(), None),
        Values::U64(_) => schema("L", name, Vec::new(), None),
        Values::F64(_) => schema("g", name, Vec::new(), None),
        Values::Bool(_) => schema("b", name, Vec::new(), None),
        Values::Text(..) => schema("U", name, Vec::new(), None),
        Values::Words(..) => schema("c", name, Vec::new(), Some(schema("U", "", Vec::new(), None))),
    };
    let fields = columns.columns.iter().map(|c| field(&c.name, &c.values)).collect();
    schema("+s", "", fields, None)
}

/// What an array owns: the table behind its buffers, and the lists of pointers.
struct ArrayParts {
    _table: Arc<Columns>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
    dictionary: *mut Array,
}

unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: as for schemas.
    unsafe {
        let parts = Box::from_raw((*array).private_data.cast::<ArrayParts>());
        parts.children.iter().chain([&parts.dictionary]).filter(|child| !child.is_null()).for_each(
            |&child| {
                drop(Box::from_raw(child));
            },
        );
        (*array).release = None;
    }
}

fn array(
    table: &Arc<Columns>,
    (length, nulls): (usize, usize),
    buffers: Vec<*const c_void>,
    children: Vec<Array>,
    dictionary: Option<Array>,
) -> Array {
    let boxed = |array| Box::into_raw(Box::new(array));
    let mut parts = Box::new(ArrayParts {
        _table: Arc::clone(table),
        buffers,
        children: children.into_iter().map(boxed).collect(),
        dictionary: dictionary.map_or(null_mut(), boxed),
    });
    Array {
        length: length as i64,
        null_count: nulls as i64,
        offset: 0,
        n_buffers: parts.buffers.len() as i64,
        n_children: parts.children.len() as i64,
        buffers: parts.buffers.as_mut_ptr(),
        children: parts.children.as_mut_ptr(),
        dictionary: parts.dictionary,
        release: Some(release_array),
        private_data: Box::into_raw(parts).cast(),
    }
}

fn array_of(table: &Arc<Columns>) -> Array {
    let fields = table.columns.iter().map(|column| {
        let valid = column.valid.as_ref().map_or(null(), |bits| bits.as_ptr().cast::<c_void>());
        let counts = (table.rows, column.missing);
        let flat = |values: *const c_void| array(table, counts, vec![valid, values], Vec::new(), None);
        let text = |counts, valid, offsets: &Vec<i64>, bytes: &Vec<u8>| {
            let buffers = vec![valid, offsets.as_ptr().cast(), bytes.as_ptr().cast()];
            array(table, counts, buffers, Vec::new(), None)
        };
        match &column.values {
            Values::I64(values) => flat(values.as_ptr().cast()),
            Values::U64(values) => flat(values.as_ptr().cast()),
            Values::F64(values) => flat(values.as_ptr().cast()),
            Values::Bool(bits) => flat(bits.as_ptr().cast()),
            Values::Text(offsets, bytes) => text(counts, valid, offsets, bytes),
            Values::Words(codes, offsets, bytes) => {
                let words = text((offsets.len() - 1, 0), null(), offsets, bytes);
                array(table, counts, vec![valid, codes.as_ptr().cast()], Vec::new(), Some(words))
            }
        }
    });
    array(table, (table.rows, 0), vec![null()], fields.collect(), None)
}

/// What a stream owns: the table, and whether its one array is still to come.
struct StreamParts {
    table: Arc<Columns>,
    left: bool,
}

unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: the private data of our streams are `StreamParts`; `out` is a place for a schema that holds none.
    unsafe {
        let parts = &*(*stream).private_data.cast::<StreamParts>();
        out.write(schema_of(&parts.table));
    }
    0
}

unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: as above.
    unsafe {
        let parts = &mut *(*stream).private_data.cast::<StreamParts>();
        let left = std::mem::replace(&mut parts.left, false);
        out.write(if left { array_of(&parts.table) } else { Array::NONE });
    }
    0
}

unsafe extern "C" fn get_last_error(_: *mut Stream) -> *const c_char {
    null()
}

unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: as above; it is released once.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<StreamParts>()));
        (*stream).release = None;
    }
}

/// The stream of a table.
pub fn stream_of(table: &Arc<Columns>) -> Stream {
    let parts = Box::new(StreamParts { table: Arc::clone(table), left: true });
    Stream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(parts).cast(),
    }
}

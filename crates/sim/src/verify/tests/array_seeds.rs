//! Seeds of arrays that failed once, with the stack they drew then.

use super::seeds::{hold, hold_all, hold_file, hold_shape};
use crate::verify::{Family, Shape};

/// A leg came and went faster than the journals of the others were written: each time all writes began anew (22, 489, 814). A
/// rebuild went on from an old mark (553). Legs came and went during a start, which began anew each time (2250).
#[test]
fn parity_arrays_bear_legs_that_come_and_go() {
    hold(Family::ParityOfFaultySsds, &[22, 489, 553, 814, 2250]);
}

/// A start replayed the journal without a leg, did not end, and the next one took that leg for current.
#[test]
fn a_leg_that_missed_a_replay_is_out() {
    hold(Family::ParityOfFaultySsds, &[2077]);
}

/// The checksum of a journal entry was a CRC, which is the same for all records that end with their own CRC: old data behind a
/// new header was replayed.
#[test]
fn arrays_keep_the_records_of_arrays_above_them() {
    hold(Family::Arrays, &[1009]);
}

/// A read waited for its extent because its leg was not rebuilt there. When it got the extent the leg was rebuilt and another was
/// gone: it asked the others, and failed, although its own leg had the data.
#[test]
fn a_read_asks_its_own_leg_once_that_is_rebuilt() {
    hold(Family::Arrays, &[30_521]);
}

/// A leg of a mirror of leaves was replaced; the start that might find it blank was told that it may be initialised, and so
/// were drives elsewhere in the array, which began anew on cells that were not erased: pages were programmed twice, or an array above
/// such drives did not start (911127, 911405).
#[test]
fn no_leg_is_replaced_where_drives_would_begin_anew() {
    hold(Family::Arrays, &[910_098, 910_338, 911_127]);
    hold_shape(Shape::Random, 911_405);
}

/// An array that had failed started anew, found all its legs called full, and had not replayed its journal when the legs were compared:
/// what was being written was half there, as it may be until then.
#[test]
fn legs_are_compared_when_the_array_serves_again() {
    hold(Family::ParityOfFaultySsds, &[312_213]);
    hold(Family::Over("parity"), &[302_595]);
}

/// A start tried a failed request again at the offset that it had when it came back. A slice, a stripe or a concatenation passes requests
/// on with an offset of its own: the header of a journal entry was read elsewhere and missed, so one leg stayed new and one
/// old, or what was replayed was written over other data. (First seen with a stripe as the leg of an array, arrays 576.)
#[test]
fn a_start_tries_again_at_the_same_place() {
    hold_all(Shape::File(PARITY_OVER_SLICES.into()), 1..61);
}

/// A part of a journal entry was written again after another leg of the entry had gone, and no longer named that leg. The leg was back
/// before its absence was on record: the entry counted without it, and the row became half new.
#[test]
fn all_parts_of_a_journal_entry_name_the_same_legs() {
    for seed in [928, 1261, 2148, 2719] {
        hold_file(PARITY_OVER_SLICES, seed);
    }
}

const PARITY_OVER_SLICES: &str = r#"[export.data]
device = "array"

[device.array]
kind = "parity"
legs = ["moved1", "moved2", "moved3"]
chunk = 4096
journal_size = 73728
write_retries = 1
initial_sync = "assume-clean"

[device.moved1]
kind = "slice"
below = "faulty1"
offset = 65536
size = 262144

[device.faulty1]
kind = "fault"
below = "file1"
read_error_rate = "1/20"
write_error_rate = "1/20"

[device.file1]
kind = "file"
path = "file1.img"
size = 393216
latency = "200 us"
bandwidth = 8388608

[device.moved2]
kind = "slice"
below = "faulty2"
offset = 65536
size = 262144

[device.faulty2]
kind = "fault"
below = "file2"
read_error_rate = "1/20"
write_error_rate = "1/20"

[device.file2]
kind = "file"
path = "file2.img"
size = 393216
latency = "200 us"
bandwidth = 8388608

[device.moved3]
kind = "slice"
below = "faulty3"
offset = 65536
size = 262144

[device.faulty3]
kind = "fault"
below = "file3"
read_error_rate = "1/20"
write_error_rate = "1/20"

[device.file3]
kind = "file"
path = "file3.img"
size = 393216
latency = "200 us"
bandwidth = 8388608
"#;

/// A leg of a mirror of leaves was replaced; the start that might find it blank was told that it may be initialised, and so
/// were drives elsewhere in the array, which began anew on cells that were not erased: pages were programmed twice, or an array above
/// such drives did not start (911127, 911405). A drive begins anew on a blank medium only.
#[test]
fn a_leg_is_replaced_beside_drives_that_hold_data() {
    hold(Family::Arrays, &[910_098, 910_338, 911_127]);
    hold_shape(Shape::Random, 911_405);
}

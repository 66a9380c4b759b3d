//! The faults that can be planted in a flash drive.

use nandu_base::Plant;

/// Faults that can be planted.
pub(super) const PLANTS: &[Plant] = &[
    Plant::new(
        "ssd.erase-too-early",
        "I-20",
        "a block is erased before the newer versions of its pages are programmed",
    )
    .within("ssd-units"),
    Plant::new(
        "ssd.erase-before-record",
        "I-1",
        "an erase does not wait for trim records that are in flight",
    )
    .within("ssd-trimmed"),
    Plant::new(
        "ssd.erase-before-reads",
        "failures",
        "with the die scheduler `out-of-order`, a block is erased although reads of it wait",
    )
    .within("ssd-queued"),
    Plant::new(
        "ssd.prices-at-issue",
        "I-17",
        "an operation that waits for another gets its place on its die when it is issued, and the die stands still for it",
    )
    .within("ssd-paged"),
    Plant::new("ssd.die-woken-late", "I-17", "now and then a die is woken later than it is free")
        .within("ssd-queued"),
    Plant::new("ssd.stale-map", "I-5", "now and then a moved page is not entered in the map"),
    Plant::new("ssd.lost-invalidation", "I-5", "now and then an overwrite is not counted"),
    Plant::new("ssd.program-twice", "I-6", "now and then a page is programmed again unerased"),
    Plant::new("ssd.trim-not-recorded", "I-1", "a flush does not write the trim journal"),
    Plant::new("ssd.trim-record-dropped", "I-19", "a record of trims goes when the oldest of them is needed no more"),
    Plant::new("ssd.ends-early", "I-21", "the drive ends while its dies are busy"),
    Plant::new(
        "ssd.stripe-left-open",
        "whole_stripes",
        "with `gc.whole_stripes`, a step of collection ends in the middle of a stripe",
    )
    .within("ssd-units"),
    Plant::new("ssd.uncharged-gc", "I-13", "moved pages are not charged"),
    Plant::new("ssd.path-without-queue", "I-13", "the wait for the die is counted twice"),
    Plant::new("ssd.wear-falls", "I-16", "now and then a block forgets its erases"),
    Plant::new("ssd.worn-block-used", "I-16", "a block that is worn out is erased and used again")
        .within("ssd-worn"),
    Plant::new(
        "ssd.map-lost-invalidation",
        "I-5",
        "a delayed read that is saved forgets what it superseded, as the TPC-FTL paper has it",
    )
    .within("ssd-delayed-reads"),
    Plant::new(
        "ssd.map-skipped-fill",
        "I-5",
        "a delayed read loads nothing: entries that were not written are lost",
    )
    .within("ssd-paged"),
    Plant::new(
        "ssd.map-buffer-forgotten",
        "I-5",
        "a translation page that is read again does not get the changes that wait for it",
    )
    .within("ssd-paged"),
    Plant::new(
        "ssd.map-slot-persisted",
        "I-4",
        "a checkpoint holds slots of the cache where the places of translation pages belong",
    )
    .within("ssd-paged"),
    Plant::new(
        "ssd.gathered-although-written",
        "I-5",
        "a logical block becomes one entry although a page of it was written after it was copied",
    )
    .within("ssd-gathers"),
    Plant::new(
        "ssd.tenant-page-misplaced",
        "I-7",
        "now and then a tenant's page goes to a unit of the next tenant",
    )
    .within("ssd-tenants"),
    Plant::new(
        "ssd.tenant-map-page-misplaced",
        "I-7",
        "now and then a tenant's translation page goes to a block of the next tenant",
    )
    .within("ssd-paged-tenants"),
    Plant::new("ssd.tenant-collects-others", "I-7", "a tenant clears units of any other")
        .within("ssd-tenants"),
    Plant::new(
        "ssd.tenant-unit-from-nowhere",
        "I-7",
        "a tenant gets a unit that nobody has lent, of those that no tenant was given",
    )
    .within("ssd-lending"),
    Plant::new("ssd.tenant-keeps-loan", "I-8", "a tenant does not give back what it owes")
        .within("ssd-lending"),
    Plant::new(
        "ssd.tenant-room-not-kept",
        "I-8",
        "a tenant that owes units opens others without keeping the room to give back",
    )
    .within("ssd-lending"),
    Plant::new(
        "ssd.tenant-makes-others-collect",
        "I-8",
        "a tenant that owes nothing clears a unit because another one opens one",
    )
    .within("ssd-lending"),
    Plant::new(
        "ssd.tenant-collects-twice",
        "I-8",
        "a tenant that owes units clears two of them for one that is demanded",
    )
    .within("ssd-lending"),
    Plant::new("ssd.tenant-end-not-charged", "I-7", "a unit that wears out comes off no tenant's account")
        .within("ssd-tenants"),
    Plant::new("ssd.tenant-keeps-while-idle", "I-8", "an idle tenant keeps what it could give back")
        .within("ssd-lending"),
    Plant::new(
        "ssd.tenant-leaves-units",
        "I-7",
        "a tenant that goes leaves units with its pages behind, which are nobody's",
    )
    .within("ssd-dealing"),
    Plant::new(
        "ssd.tenant-table-not-recorded",
        "I-7",
        "that a tenant has come, gone, grown or shrunk is not put on record",
    )
    .within("ssd-dealing"),
    Plant::new("ssd.oob-dropped", "I-1", "now and then a page is programmed without its out-of-band record"),
    Plant::new("ssd.oldest-wins", "I-1", "recovery takes the oldest version of a page"),
    Plant::new(
        "ssd.suspended-is-told",
        "I-1",
        "a program that is suspended counts as complete at the end that it had before",
    )
    .within("ssd-queued"),
    Plant::new("ssd.suspended-too-often", "suspension", "a program or erase is suspended without end")
        .within("ssd-queued"),
    Plant::new(
        "ssd.die-forgets",
        "progress",
        "now and then an operation is lost at a die that serves by share",
    )
    .within("fair-dies"),
    Plant::new(
        "ssd.idling-uncharged",
        "I-13",
        "now and then nobody is charged what a die stands idle for a tenant that its scheduler awaits",
    )
    .within("fair-dies"),
    Plant::new("ssd.moves-draw-nothing", "I-13", "moved pages are not in the account of energy"),
    Plant::new(
        "ssd.buffer-forgotten-by-flush",
        "I-1",
        "a flush does not wait for the write buffer of a page-mapped drive",
    )
    .within("ssd-buffered"),
    Plant::new("ssd.buffer-forgotten-by-fua", "I-1", "a write with FUA ends when it is in the write buffer")
        .within("ssd-buffered"),
    Plant::new("ssd.buffer-forgotten-by-read", "I-1", "a read does not look into the write buffer")
        .within("ssd-buffered"),
    Plant::new("ssd.buffer-forgotten-by-trim", "I-1", "a trim leaves what is in the write buffer")
        .within("ssd-buffered"),
    Plant::new("ssd.buffer-left-early", "I-1", "a slot counts as written when its program is issued")
        .within("ssd-buffered"),
    Plant::new("ssd.buffer-slot-lost", "buffer", "now and then a slot is not given back")
        .within("ssd-buffered"),
    Plant::new("ssd.buffer-not-saved", "I-1", "capacitors save only some of the slots")
        .within("ssd-protected"),
    Plant::new(
        "ssd.fold-erased-early",
        "I-20",
        "a block in SLC mode is erased before its pages are programmed elsewhere",
    )
    .within("ssd-slc"),
    Plant::new(
        "ssd.slc-mode-not-recorded",
        "block_mode",
        "now and then the record of a page does not say that its block is in SLC mode",
    )
    .within("ssd-slc"),
    Plant::new(
        "ssd.slc-mode-forgotten",
        "block_mode",
        "a start takes blocks in SLC mode as blocks of the chip's own mode",
    )
    .within("ssd-slc"),
    Plant::new(
        "ssd.log-erase-too-early",
        "I-1",
        "with a log-block map, blocks are erased before the merged block is programmed",
    )
    .within("ssd-log"),
    Plant::new(
        "ssd.log-stale-page",
        "I-1",
        "now and then a merge copies a version that the log has a newer one of",
    )
    .within("ssd-log"),
    Plant::new("ssd.log-unfinished-merge", "I-1", "a block that a merge fills counts from its first page on")
        .within("ssd-log"),
    Plant::new("ssd.log-lost-mark", "I-1", "the mark of a trim is programmed without its names")
        .within("ssd-log"),
    Plant::new(
        "ssd.log-oldest-wins",
        "I-1",
        "recovery of a log-block map takes the oldest version of a page",
    )
    .within("ssd-log"),
    Plant::new("ssd.log-wrong-switch", "I-5", "now and then a log block out of order becomes the data block")
        .within("ssd-log"),
    Plant::new(
        "ssd.log-tenant-page-misplaced",
        "I-7",
        "two tenants have a page in each other's log-block maps",
    )
    .within("ssd-log"),
    Plant::new(
        "ssd.log-lent-too-early",
        "I-6",
        "a log block that was lent is programmed before what its lender did last is done",
    )
    .within("ssd-log"),
    Plant::new("ssd.log-uncharged-merge", "I-13", "merges are not charged").within("ssd-log"),
];

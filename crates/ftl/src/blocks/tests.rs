//! Tests of the table of blocks.

use super::content::JOURNAL;
use super::*;
use crate::mapping::Tp;

fn table() -> BlockTable {
    BlockTable::new(Layout::new(2, 3, 4).unwrap())
}

#[test]
fn blocks_are_taken_in_the_order_of_their_erase() {
    let mut t = table();
    let first = t.open_free(1, 1).unwrap();
    let block = first.block(t.layout());
    assert_eq!(t.planes[1].free, 2);
    t.erased(block);
    let order: Vec<BlockId> = (0..3).map(|_| t.open_free(1, 1).unwrap().block(t.layout())).collect();
    assert_eq!(order[2], block);
    assert_eq!(t.open_free(1, 1), None);
    assert_eq!(t.erases(block), 1);
}

#[test]
#[should_panic(expected = "I-6")]
fn programming_twice_is_caught() {
    let mut t = table();
    let mut cursor = t.open_free(0, 1).unwrap();
    let ppn = cursor.take();
    t.programmed(ppn, Content::Data(Lpn(1)));
    t.programmed(ppn, Content::Data(Lpn(2)));
}

#[test]
fn a_filled_table_is_one_with_every_owner() {
    let layout = Layout::new(2, 6, 4).unwrap();
    let filled: Arc<dyn Initial> = Arc::new(crate::filled::Filled::new(layout, vec![1, 0], 0, 27));
    let (mut lazy, mut full) = (BlockTable::new(layout), BlockTable::new(layout));
    for table in [&mut lazy, &mut full] {
        for (plane, pages) in [(0, 13), (1, 14)] {
            for first in (0..pages).step_by(4) {
                let mut cursor = table.open_free(plane, 1).unwrap();
                cursor.skip(4.min(pages - first));
                table.planes[plane as usize].host = cursor;
            }
        }
    }
    lazy.begin_as(&filled);
    (0..27).map(Lpn).for_each(|lpn| full.programmed(filled.place(lpn), Content::Data(lpn)));
    let same = |lazy: &BlockTable, full: &BlockTable| {
        assert_eq!(lazy.valid_pages(), full.valid_pages());
        for ppn in (0..layout.ppn_end() as u32).map(Ppn) {
            assert_eq!(
                (lazy.content(ppn), lazy.data_at(ppn)),
                (full.content(ppn), full.data_at(ppn)),
                "{ppn:?}"
            );
        }
    };
    same(&lazy, &full);
    for table in [&mut lazy, &mut full] {
        // A block is erased and a page written to it, another page is written behind the fill, and one is wasted.
        let block = layout.first_block(0);
        table.erased(block);
        table.programmed(layout.first_page(block), Content::Data(Lpn(3)));
        let ppn = table.planes[1].host.take();
        table.programmed(ppn, Content::Data(Lpn(9)));
        table.waste_page(filled.place(Lpn(4)));
    }
    same(&lazy, &full);
}

/// The last erased block had just been opened for moved pages; the host's is nearly full and comes first.
#[test]
fn after_a_cut_moved_pages_get_the_block_with_the_most_room() {
    let left = |table: &BlockTable| (table.planes[1].host.left(), table.planes[1].moved.left());
    let mut t = table().for_recovery();
    t.set_streams(1);
    let first = t.layout().first_block(1).0;
    for (block, written) in [(first, 3), (first + 1, 2), (first + 2, 1)] {
        let pages = t.layout().first_page(BlockId(block)).0;
        (pages..pages + written).for_each(|ppn| t.programmed(Ppn(ppn), Content::Data(Lpn(ppn))));
        t.restore_block(BlockId(block), written, written, 1, 0);
    }
    assert_eq!(left(&t), (2, 1));
    t.settle_open();
    assert_eq!((left(&t), t.stream(1, 1).left()), ((2, 3), 1));
}

#[test]
fn owner_words_keep_what_they_mean() {
    let cases = [
        Content::Free,
        Content::Waste,
        Content::Map(Tp(0)),
        Content::Map(Tp(JOURNAL - MAP - 1)),
        Content::Journal(0),
        Content::Journal(JOURNAL_SLOTS_MAX - 1),
        Content::Data(Lpn(0)),
        Content::Data(Lpn(LOGICAL_PAGES_MAX - 1)),
    ];
    for content in cases {
        assert_eq!(Content::from_word(content.word()), content);
    }
}

#[test]
fn an_invalid_page_counts_for_its_block_and_its_pool() {
    let mut t = table();
    let mut cursor = t.open_free(0, 1).unwrap();
    let ppn = cursor.take();
    t.programmed(ppn, Content::Data(Lpn(1)));
    t.planes[0].valid += 1;
    t.invalidate(ppn);
    let block = t.layout().block(ppn);
    assert_eq!((t.invalid(block), t.planes[0].valid), (1, 0));
}

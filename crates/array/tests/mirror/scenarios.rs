//! Single stories: what must happen in each state, step by step.

use crate::world::{Setup, World};
use nandu_base::{Op, OpenHow};

const CREATE: OpenHow = OpenHow { create: true, alone: false };

fn made(setup: Setup) -> World {
    let mut w = World::new(setup);
    w.open(CREATE).expect("two blank legs become a mirror");
    w
}

fn ok(w: &World) {
    assert_eq!(w.wrong, None);
}

#[test]
fn data_is_written_read_flushed_and_found_again() {
    let mut w = made(Setup::small(1));
    let a = w.write(3, 10);
    let b = w.change(Op::Write, 100, 300, true);
    w.wait(&[a, b]);
    let r = w.read(0, 500);
    let f = w.flush();
    w.wait(&[r, f]);
    assert!(w.is_ok(a) && w.is_ok(b) && w.is_ok(r) && w.is_ok(f));
    w.run(10_000);
    w.check_equal();
    w.close();
    ok(&w);
    w.cut();
    w.open(OpenHow::default()).expect("both legs are there");
    w.read_all();
    w.run(10_000);
    w.check_equal();
    ok(&w);
}

//! Arrays that grow: they are drawn, listed and bounded, and seeds of them that failed once.

use super::cases;
use crate::verify::case::{Chore, What};
use crate::verify::{Case, CaseError, Draws, Shape, VerifyOptions, case_of, run_case};
use nandu_base::ByteOffset;
use nandu_stack::{BuildOptions, builtin};

/// What the export of a case serves at first.
fn served_first(case: &Case) -> u64 {
    let (stack, _) = case.stack(&builtin()).expect("a stack");
    let built = stack.build(&BuildOptions::default()).expect("it can be built");
    built.parts[built.exports[0].node as usize].machine.limits().capacity.0
}

/// Of each kind of array that can grow some do, under load, and hosts use what is new. As listed they do what they did as drawn.
#[test]
fn arrays_of_every_kind_grow() {
    let mut used = 0;
    for (family, seeds) in [
        ("mirror-of-files", 60),
        ("hetero-mirror-of-files", 60),
        ("mirror-of-three", 160),
        ("parity-of-leaves", 60),
    ] {
        let shape = Shape::named(family).expect("a family");
        let options = VerifyOptions { shape, crash: true, ..VerifyOptions::default() };
        let mut asked = 0;
        for seed in 0..seeds {
            let (report, case) = case_of(&options, seed);
            assert!(report.failure.is_none(), "{family} {seed}: {:?}", report.failure);
            let case = case.expect("it was written down");
            let grows = |what: &What| matches!(what, What::Chore { chore: Chore::Grow(_), .. });
            if !case.steps.iter().any(|step| grows(&step.what)) {
                continue;
            }
            asked += 1;
            let before = ByteOffset(served_first(&case));
            let is_new = |what: &What| matches!(what, What::Ask { asked, .. } if asked.offset >= before);
            used += u32::from(case.steps.iter().any(|step| is_new(&step.what)));
            cases::hold(family, seed..seed + 1);
        }
        assert!(asked > 2, "{family}: {asked} are asked to grow");
    }
    assert!(used > 5, "{used} hosts use what is new");
}

const MIRROR: &str = "case = 1\nseed = \"7\"\nprecondition = \"empty\"\ndepth = 1\nrest = 60000000000\n\
    stack = '''\n[export.data]\ndevice = \"m\"\n\
    [device.m]\nkind = \"mirror\"\nlegs = [\"a\", \"b\"]\ninitial_sync = \"assume-clean\"\n\
    [device.a]\nkind = \"memory\"\nsize = \"1 MiB\"\n[device.b]\nkind = \"memory\"\nsize = \"1 MiB\"\n'''\n";

/// When a growth is left out, requests that follow it may lie beyond what is served then. That breaks nothing, else a smaller case would break another
/// thing than the larger one.
#[test]
fn what_lies_beyond_what_is_served_is_left_out() {
    let write = "{ events = 400, ask = { op = \"write\", offset = 1048576, len = 4096 } }";
    let grow = "{ chore = { device = \"m\", do = \"grow\", bytes = 1048576 } }";
    let requests = |steps: &str| {
        let case = Case::parse(&format!("{MIRROR}steps = [{steps}]\n")).expect("a case");
        let report = run_case(&case, &builtin(), false).expect("it can be run");
        assert!(report.failure.is_none(), "{steps}: {:?}", report.failure);
        report.requests
    };
    // Without the growth all is as if nothing had been asked; with it there is more to read back, and the write.
    let grown = requests(&format!("{grow}, {{ events = 400 }}"));
    assert!(grown > requests(""));
    assert_eq!(requests(&format!("{grow}, {write}")), grown + 1);
    let unused = format!("{{ chore = {{ device = \"other\", do = \"grow\", bytes = 1048576 }} }}, {write}");
    let said = Case::parse(&format!("{MIRROR}steps = [{unused}]\n")).expect("a case").stack(&builtin());
    assert!(matches!(said, Err(CaseError::Step { number: 2, .. })), "no growth of `m` is listed");
    // It is listed, but comes too late.
    assert_eq!(requests(&format!("{write}, {grow}, {{ events = 400 }}")), grown);
}

#[test]
fn a_case_may_not_grow_without_bound() {
    for (bytes, words) in
        [("9223372036854771712", "at most"), ("100", "multiple of 4096"), ("0", "multiple of 4096")]
    {
        let step = format!("steps = [{{ chore = {{ device = \"m\", do = \"grow\", bytes = {bytes} }} }}]\n");
        let case = Case::parse(&(MIRROR.to_string() + &step));
        let said = case.and_then(|case| case.stack(&builtin()).map(drop)).expect_err(bytes).to_string();
        assert!(said.contains(words), "{bytes}: {said}");
    }
}

/// The last flush before a growth was answered late in an event, and nothing said that the growth might go on.
#[test]
fn a_growth_goes_on_behind_a_flush_that_is_answered_late() {
    let shape = Shape::named("hetero-mirror-of-files").expect("a family");
    let options = VerifyOptions { shape, draws: Draws::Growth, ..VerifyOptions::default() };
    for seed in [4507, 8317] {
        let (report, _) = case_of(&options, seed);
        assert!(report.failure.is_none(), "{seed}: {:?}", report.failure);
    }
}

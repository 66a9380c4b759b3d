//! A queue whose limits hold a request sets its timer once.

use nandu_base::{Flags, Op};
use nandu_stack::testbed::Testbed;
use nandu_stack::{BuildOptions, builtin};

/// One tenant waits for an hour for what its limit allows, while another one sends request after request.
#[test]
fn a_request_that_is_held_costs_one_timer_however_many_others_pass_it() {
    let text = "[export.slow]\ndevice = \"queue\"\ntenant = \"slow\"\n[export.fast]\ndevice = \"queue\"\ntenant = \"fast\"\n\
                [tenant.slow]\nmax = { rbps = 4096 }\n[tenant.fast]\n\
                [device.queue]\nkind = \"queue\"\nbelow = \"disk\"\ndepth = 8\n\
                [device.disk]\nkind = \"memory\"\nsize = \"16 MiB\"\nlatency = \"1 us\"\n";
    let mut bed = Testbed::new(text, &builtin(), BuildOptions::default()).expect("it is a stack");
    for _ in 0..4 {
        bed.submit(0, Op::Read, Flags::NONE, 0, 1 << 20);
    }
    while bed.to_come() > 1 && bed.step() {}
    for n in 0..10_000 {
        let fast = bed.submit(1, Op::Read, Flags::NONE, n % 1000 * 4096, 4096);
        let mut done = bed.take_done();
        while done.iter().all(|done| done.serial != fast) {
            assert!(bed.step(), "it is served");
            done = bed.take_done();
        }
        assert!(bed.to_come() <= 8, "{} events wait after {n} requests", bed.to_come());
    }
}

//! What changes about tenants while workloads run: read in the order of its times, and refused where it says nothing.

use nandu_base::{ByteLen, Deal, Span, TenantId};
use nandu_stack::{Changed, Stack, StackFile, builtin};

const STACK: &str = "[export.a]\ndevice = \"m\"\n[tenant.a]\nweight = 300\nmax = { riops = 7, wiops = 9 }\n\
                     [device.m]\nkind = \"ssd\"\nprofile = \"slc-2015\"\nchannels = 2\nblocks_per_plane = 64\npages_per_block = 16\n\
                     spare_factor = 0.25\nisolation = { kind = \"vssd\" }\ntenants = [{ name = \"a\", size = \"1 MiB\" }]\nmax_tenants = 4\n";

fn load(more: &str) -> Result<Stack, String> {
    let file = StackFile::parse(&format!("{STACK}{more}"), "s.toml").map_err(|e| e.to_string())?;
    file.load(&builtin()).map_err(|e| e.to_string())
}

#[test]
fn changes_build_upon_each_other_in_the_order_of_their_times() {
    let late = "[change.late]\nat = \"2 s\"\ntenant = \"a\"\nmax = { riops = 8 }\n";
    let early = "[change.early]\nat = \"1 s\"\ntenant = \"a\"\nweight = 50\ntarget_latency = \"5 ms\"\n";
    let space = "[change.guest]\nat = \"1500 ms\"\ndevice = \"m\"\nresize = 2\nsize = \"1 MiB\"\n";
    let stack = load(&format!("{late}{early}{space}")).unwrap();
    let names: Vec<&str> = stack.changes.iter().map(|change| change.name.as_str()).collect();
    assert_eq!(names, ["early", "guest", "late"]);
    let Changed::Share(tenant, share) = &stack.changes[0].what else { panic!("a share") };
    assert_eq!((*tenant, share.weight, share.riops, share.wiops), (TenantId(1), 50, Some(7), Some(9)));
    let deal = Changed::Space(0, Deal::Resize { number: 2, size: ByteLen::mib(1) });
    assert_eq!(stack.changes[1].what, deal);
    // The limits are given anew as a whole; the rest is as it was left.
    let Changed::Share(_, share) = &stack.changes[2].what else { panic!("a share") };
    assert_eq!((share.weight, share.riops, share.wiops), (50, Some(8), None));
    assert_eq!(share.target_latency, Some(Span::from_ms(5)));
    assert_ne!(stack.hash(), load("").unwrap().hash(), "another schedule is another stack");
}

#[test]
fn a_change_that_says_nothing_or_two_things_is_refused() {
    for (table, word) in [
        ("at = \"1 s\"\ntenant = \"a\"\n", "names a `tenant`"),
        ("at = \"1 s\"\nweight = 5\n", "names a `tenant`"),
        ("at = \"1 s\"\ntenant = \"a\"\nweight = 5\nadd = \"1 MiB\"\n", "names a `tenant`"),
        ("at = \"1 s\"\ntenant = \"x\"\nweight = 5\n", "unknown tenant `x`"),
        ("at = \"1 s\"\ntenant = \"a\"\nmax = { riops = 0 }\n", "0"),
        ("at = \"1 s\"\ndevice = \"m\"\nresize = 2\n", "`resize` with `size`"),
        ("at = \"1 s\"\ndevice = \"m\"\nremove = 2\nadd = \"1 MiB\"\n", "give one of"),
        ("at = \"1 s\"\ndevice = \"n\"\nremove = 2\n", "unknown device `n`"),
        ("tenant = \"a\"\nweight = 5\n", "`at`"),
    ] {
        let error = load(&format!("[change.c]\n{table}")).err().unwrap_or_else(|| panic!("{table} is taken"));
        assert!(error.contains(word), "{table}: {error}");
    }
}

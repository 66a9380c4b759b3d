//! Recordings that are known as such, by the hash of their requests.
//!
//! A file says what was asked and when, not whether a machine asked it: a generated trace written as text looks like any other.
//! So "real" is said of a trace only when its [content hash](crate::Trace::content_hash) is in this list, in whatever format and
//! compression it comes. A part of a recording (`--limit`) is not told from anything else. To add a recording: its name, its number of
//! requests, the hash that `nandu trace info` prints, and where it was published.

use crate::trace::{Origin, Trace};

/// A trace whose origin is known.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// What it is, and where it was published.
    pub name: &'static str,
    /// Requests it has.
    pub requests: u64,
    /// Its content hash in hex.
    pub hash: &'static str,
    /// Recorded, or made up and published.
    pub origin: Origin,
}

const fn real(name: &'static str, requests: u64, hash: &'static str) -> Known {
    Known { name, requests, hash, origin: Origin::Real }
}

/// Every trace that is known.
pub static KNOWN: [Known; 21] = [
    real(
        "SPC Financial1, first 10,000 requests (UMass Trace Repository)",
        10_000,
        "7a5ab4713800e5a44e88193178e4c40e40c839c48342a3ff0f704daa6eb3e51a",
    ),
    real(
        "SPC WebSearch1, first 60 s (UMass Trace Repository)",
        24_783,
        "962f9e07749a9e103493517676f5f183a64ef1b2936c7faf5b1db6a72861b073",
    ),
    real(
        "blkreplay, linux-mysql, 1 h (blkreplay.org)",
        80_794,
        "3424dad0f48d1387477b9d8d29b1b7c8dbd18bbd2c2bfd5130b7189ea45d0fc0",
    ),
    real(
        "blkreplay, windows-shared-server, 1 h (blkreplay.org)",
        1_371,
        "e4282ec6efd694bda16accbdd596a161fc4142f528fd5973626bbd533291a2f1",
    ),
    real(
        "CloudPhysics, a virtual disk, 2 h (PyMimircache, libCacheSim)",
        113_872,
        "b9768c31dd7f394912b9150ebd08f610102460f93765f8ca8f22956b63fa980e",
    ),
    real(
        "DiskSim validation, Quantum Atlas 10K",
        10_000,
        "2509957ff187c9fbabb9313afbb13da5811916c9f49e4d8c9aef5e9bd5ed4a6f",
    ),
    real(
        "DiskSim validation, Quantum Atlas III",
        10_000,
        "b0222997ff37708b60f9a55070ec48e5ad07a4d5161897d20eee232baea7a881",
    ),
    real(
        "DiskSim validation, Seagate Barracuda",
        10_000,
        "e4cf5ca275e9ba691b317b01a24f2a01d09e85dd569eca7d6b7226551b517977",
    ),
    real(
        "DiskSim validation, Seagate Cheetah 4LP",
        10_000,
        "df7e0b1675e0a1afbbad43f7c6922174464c4a68bb28580080faea0fb0b6ed86",
    ),
    real(
        "DiskSim validation, HP C2247A",
        9_999,
        "0420e43847008d037650f29d021afc28b29d5937903b9c944d6c1c4ff0295a0a",
    ),
    real(
        "DiskSim validation, HP C2490A",
        9_984,
        "6bb7d43d79ac41145ef7f26b2b9ec6435f4b3b54ccebf42d2d84cd84b52e0106",
    ),
    real(
        "DiskSim validation, HP C3323A",
        9_074,
        "5a68c63ad299a16e72d5adae4836715f76511680e3caca1a0d9906670d6eabd0",
    ),
    real(
        "DiskSim validation, IBM 18ES",
        10_000,
        "49522f2a7183af9c970af785939bd9d0322c36e0c163918ae5964d9f478fcb26",
    ),
    real(
        "IOzone as recorded for DiskSim's SSD extension",
        100_000,
        "3fea1b13d23a87fd3d7da3d881fcea9abe00321e7b74bff20fe6d5bf54212f73",
    ),
    real(
        "Microsoft Production Server, Developer Tools Release, 300 s of one disk (SNIA IOTTA)",
        127_043,
        "1e975f02f3ed89a0392ff5a67ce099ec326e3f5e609663c3739fd6bc2e894a59",
    ),
    real(
        "MSR Cambridge hm_0, 148 s (SNIA IOTTA)",
        7_016,
        "ac1e53bdc17b3860951a04e0cd94b163c3c20cb429443aff84b0c453b90aaaef",
    ),
    real(
        "MSR Cambridge rsrch_1 (SNIA IOTTA)",
        13_780,
        "47653d53e79d2a83acb60b9ff16e591c3837da5f9a0c9cfdc74a4fe44ff603d1",
    ),
    real(
        "MSR Cambridge wdev_1 (SNIA IOTTA)",
        1_055,
        "aebe20884afcf09ab367fed341855d7423c8c3ac80474ead0ab978ac33961433",
    ),
    real(
        "NBD integrity test (NetworkBlockDevice/nbd)",
        68_990,
        "6488613a16c9dd4a73f51ce06453ad32cbc98cb54fa0cb621c3d4e6ff8a49b64",
    ),
    real(
        "SYSTOR '17, additional, first 999 requests (SNIA IOTTA)",
        999,
        "fe45278ee913e3b2c6301fc15fe8c80a71a9a6d957a87f711c1ab26340ff10ed",
    ),
    Known {
        name: "the common trace of the peer comparison, made by a script",
        requests: 1_000_000,
        hash: "24b1c9b6dd51ad0e4547d87c9434bb86952ae3af1655f0ad8d60a3bd73279a62",
        origin: Origin::StandIn,
    },
];

/// The entry of `trace`. Its requests are hashed only when some entry has as many.
pub fn entry(trace: &Trace) -> Option<&'static Known> {
    let requests = trace.records.len() as u64;
    if !KNOWN.iter().any(|k| k.requests == requests) {
        return None;
    }
    let hash = trace.content_hash().to_string();
    KNOWN.iter().find(|k| k.hash == hash)
}

/// Says of `trace` where it comes from, when nobody has said it.
pub(crate) fn name_origin(trace: &mut Trace) {
    if trace.meta.origin == Origin::Unknown
        && let Some(known) = entry(trace)
    {
        trace.meta.origin = known.origin;
    }
}

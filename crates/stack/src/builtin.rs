//! Every machine kind that Nandu ships without a server. `live` and `py` add their own to this value.

use nandu_base::Registry;

/// The kinds in the order in which they are listed.
pub fn builtin() -> Registry {
    Registry::new()
        .with(nandu_device::block::memory())
        .with(nandu_device::block::file())
        .with(nandu_device::ssd::kind())
        .with(nandu_device::flash::kind())
        .with(nandu_device::flash::region::kind())
        .with(nandu_device::hdd::kind())
        .with(nandu_device::fault::kind())
        .with(nandu_array::integrity::kind())
        .with(nandu_array::slice::kind())
        .with(nandu_array::concat::kind())
        .with(nandu_array::stripe::kind())
        .with(nandu_array::mirror::kind())
        .with(nandu_array::mirror::hetero_kind())
        .with(nandu_array::parity::kind())
        .with(nandu_cache::machine::kind())
        .with(nandu_hybrid::kind())
        .with(nandu_queue::config::kind())
}

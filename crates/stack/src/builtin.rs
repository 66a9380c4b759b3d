//! Every machine kind and every policy that Nandu ships. A program adds its own to this value: `builtin().with(...)`.

use nandu_base::Registry;

/// Kinds and policies in the order in which they are listed.
pub fn builtin() -> Registry {
    Registry::new()
        .with(nandu_device::block::memory())
        .with(nandu_device::block::file())
        .with(nandu_device::ssd::kind())
        .with(nandu_device::flash::kind())
        .with(nandu_device::flash::flash_area::kind())
        .with(nandu_device::hdd::kind())
        .with(nandu_device::fault::kind())
        .with(nandu_device::link::kind())
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
        .with(nandu_cache::replacement::POLICIES)
        .with(nandu_cache::prefetch::POLICIES)
        .with(nandu_cache::destage::POLICIES)
        .with(nandu_hybrid::policy::promotion::POLICIES)
        .with(nandu_hybrid::policy::demotion::POLICIES)
        .with(nandu_queue::schedulers::POLICIES)
        .with(nandu_device::ssd::mapping::POLICIES)
        .with(nandu_ftl::isolation::POLICIES)
        .with(nandu_ftl::gc::POLICIES)
        .with(nandu_ftl::wear::POLICIES)
}

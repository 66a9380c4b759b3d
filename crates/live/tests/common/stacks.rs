//! Pieces of stack files.

/// Of a `fault`: a cache that keeps what it was given until a flush.
pub const CACHE: &str = "cache = { size = \"16 MiB\", destage_every = \"1 h\" }";

/// A small flash drive of pages of 4 KiB.
pub fn ssd(name: &str, more: &str) -> String {
    format!(
        "[device.{name}]\nkind = \"ssd\"\nprofile = \"slc-2015\"\nstore = \"{name}.store\"\nchannels = 2\nplanes = 2\nblocks = 40\n\
         page = \"4 KiB\"\npages_per_block = 16\nspare_factor = 0.4\nread = \"20 us\"\nprogram = \"40 us\"\nerase = \"200 us\"\n{more}\n"
    )
}

/// A disk whose arm is as slow as arms are.
pub fn hdd(name: &str, more: &str) -> String {
    format!(
        "[device.{name}]\nkind = \"hdd\"\nprofile = \"desktop-2010\"\nstore = \"{name}.store\"\ncapacity = \"8 MiB\"\n{more}\n"
    )
}

//! Pieces of stack files.

/// Of a `fault`: a cache that keeps what it was given until a flush.
pub const CACHE: &str = "cache = { size = \"16 MiB\", destage_interval = \"1 h\" }";

/// A file called as its device is, behind `fault` with these options, or bare without any.
pub fn member(name: &str, size: u64, fault: &str) -> String {
    let file =
        |leaf: &str| format!("[device.{leaf}]\nkind = \"file\"\npath = \"{name}.img\"\nsize = {size}\n");
    if fault.is_empty() {
        return file(name);
    }
    let leaf = format!("{name}-file");
    format!("[device.{name}]\nkind = \"fault\"\nbelow = \"{leaf}\"\n{fault}\n{}", file(&leaf))
}

/// A small flash drive of pages of 4 KiB.
pub fn ssd(name: &str, more: &str) -> String {
    format!(
        "[device.{name}]\nkind = \"ssd\"\nprofile = \"slc-2015\"\nstore = \"{name}.store\"\nchannels = 2\nplanes_per_die = 2\nblocks_per_plane = 40\n\
         page_size = \"4 KiB\"\npages_per_block = 16\nspare_factor = 0.4\nread_latency = \"20 us\"\nprogram_latency = \"40 us\"\nerase_latency = \"200 us\"\n{more}\n"
    )
}

/// A disk whose arm is as slow as arms are.
pub fn hdd(name: &str, more: &str) -> String {
    format!(
        "[device.{name}]\nkind = \"hdd\"\nprofile = \"desktop-2010\"\nstore = \"{name}.store\"\ncapacity = \"8 MiB\"\n{more}\n"
    )
}

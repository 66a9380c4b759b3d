//! nandu-live

pub mod nbd;

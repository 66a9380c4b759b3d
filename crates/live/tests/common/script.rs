//! Scripts: what is done to a device, as data, so that one body can run against the server and elsewhere.

use nandu_base::Rng;
use nandu_live::nbd::wire::{cmd, cmd_flag};

/// One step. Offsets and lengths in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Store bytes that are made of `fill` and their address.
    Write {
        at: u64,
        len: u32,
        fill: u64,
        fua: bool,
    },
    /// Compare with what was stored last.
    Read {
        at: u64,
        len: u32,
    },
    Flush,
    Trim {
        at: u64,
        len: u32,
        fua: bool,
    },
    Zeroes {
        at: u64,
        len: u32,
        keep: bool,
    },
}

/// What a script is played on.
pub trait Device {
    fn write(&mut self, at: u64, data: &[u8], fua: bool);
    fn read(&mut self, at: u64, len: u32) -> Vec<u8>;
    fn flush(&mut self);
    fn trim(&mut self, at: u64, len: u32, fua: bool);
    fn zeroes(&mut self, at: u64, len: u32, keep: bool);
}

/// The bytes of a write.
pub fn pattern(at: u64, len: u32, fill: u64) -> Vec<u8> {
    (0..u64::from(len) / 8).flat_map(|i| (fill << 40 ^ (at + 8 * i)).to_le_bytes()).collect()
}

/// Plays a script and checks every read against a plain copy of the device.
pub fn play(script: &[Step], device: &mut dyn Device, size: u64) {
    let mut model = vec![0_u8; size as usize];
    let place = |at: u64, len: u32| at as usize..at as usize + len as usize;
    for (number, &step) in script.iter().enumerate() {
        match step {
            Step::Write { at, len, fill, fua } => {
                let data = pattern(at, len, fill);
                device.write(at, &data, fua);
                model[place(at, len)].copy_from_slice(&data);
            }
            Step::Read { at, len } => {
                let got = device.read(at, len);
                let want = &model[place(at, len)];
                let differs = got.iter().zip(want).position(|(a, b)| a != b);
                assert_eq!(differs, None, "step {number} {step:?} of {script:?}");
                assert_eq!(got.len(), want.len());
            }
            Step::Flush => device.flush(),
            Step::Trim { at, len, fua } => {
                device.trim(at, len, fua);
                model[place(at, len)].fill(0);
            }
            Step::Zeroes { at, len, keep } => {
                device.zeroes(at, len, keep);
                model[place(at, len)].fill(0);
            }
        }
    }
}

/// A random script on `size` bytes that ends with reading everything.
pub fn random(seed: u64, steps: usize, size: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let mut script: Vec<Step> = (0..steps).map(|number| random_step(&mut rng, number as u64, size)).collect();
    script.push(Step::Flush);
    let whole = 1 << 20;
    script.extend((0..size.div_ceil(whole)).map(|i| {
        let at = i * whole;
        Step::Read { at, len: whole.min(size - at) as u32 }
    }));
    script
}

fn random_step(rng: &mut Rng, number: u64, size: u64) -> Step {
    let longest = *rng.pick(&[1, 8, 64, 600, 2048]);
    let sectors = rng.between(1, longest).min(size / 512);
    let at = rng.below(size / 512 - sectors + 1) * 512;
    let len = (sectors * 512) as u32;
    let coin = rng.below(2) == 0;
    match rng.below(10) {
        0..=3 => Step::Write { at, len, fill: number + 1, fua: coin && longest < 64 },
        4..=6 => Step::Read { at, len },
        7 => Step::Trim { at, len, fua: coin && longest < 64 },
        8 => Step::Zeroes { at, len, keep: coin },
        _ => Step::Flush,
    }
}

impl Device for super::client::Client {
    fn write(&mut self, at: u64, data: &[u8], fua: bool) {
        let flags = if fua { cmd_flag::FUA } else { 0 };
        self.call(cmd::WRITE, flags, at, data.len() as u32, data).expect("a write works");
    }

    fn read(&mut self, at: u64, len: u32) -> Vec<u8> {
        super::client::Client::read(self, at, len)
    }

    fn flush(&mut self) {
        super::client::Client::flush(self);
    }

    fn trim(&mut self, at: u64, len: u32, fua: bool) {
        let flags = if fua { cmd_flag::FUA } else { 0 };
        self.call(cmd::TRIM, flags, at, len, &[]).expect("a trim works");
    }

    fn zeroes(&mut self, at: u64, len: u32, keep: bool) {
        let flags = if keep { cmd_flag::NO_HOLE } else { 0 };
        self.call(cmd::WRITE_ZEROES, flags, at, len, &[]).expect("zeroing works");
    }
}

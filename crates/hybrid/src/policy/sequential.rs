//! What passes by because it is sequential: a request that carries on a stream of more than so many bytes.
//!
//! In the manner of bcache's `sequential_cutoff` (Linux documentation of bcache): the ends of the last [`STREAMS`] streams are
//! remembered, a request that begins at one of them carries it on, and from the cutoff on its reads and writes bypass the flash. A
//! request that begins elsewhere takes the place of the stream that was carried on longest ago. bcache has 128 streams and an average by
//! process besides, which a block device does not see.
//!
//! Cost: 24 bytes for each stream; a request looks at all of them.

const STREAMS: usize = 64;

/// Streams of requests.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Bytes from which a stream passes by; 0 for never.
    cutoff: u64,
    /// End in sectors, bytes, and when it was carried on, by count.
    all: Vec<(u64, u64, u64)>,
    count: u64,
}

impl Streams {
    /// No stream yet.
    pub fn new(cutoff: u64) -> Streams {
        Streams { cutoff, all: Vec::new(), count: 0 }
    }

    /// A request of the sectors `first..end` comes: whether its stream is that long, the request included.
    #[inline]
    pub fn pass(&mut self, first: u64, end: u64) -> bool {
        self.cutoff > 0 && self.follow(first, end)
    }

    fn follow(&mut self, first: u64, end: u64) -> bool {
        self.count += 1;
        let bytes = (end - first) * nandu_base::SECTOR;
        let at = match self.all.iter().position(|s| s.0 == first) {
            Some(at) => at,
            None if self.all.len() < STREAMS => {
                self.all.push((0, 0, 0));
                self.all.len() - 1
            }
            None => {
                let oldest = (0..STREAMS).min_by_key(|&at| self.all[at].2).unwrap_or(0);
                self.all[oldest] = (0, 0, 0);
                oldest
            }
        };
        let stream = &mut self.all[at];
        *stream = (end, stream.1 + bytes, self.count);
        stream.1 >= self.cutoff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_passes_from_the_cutoff_on() {
        let mut streams = Streams::new(3 * 4096);
        // Two streams side by side; the third page of each is the first to pass.
        let passed: Vec<bool> =
            (0..4).flat_map(|n| [n, 1000 + n]).map(|page| streams.pass(page * 8, page * 8 + 8)).collect();
        assert_eq!(passed, [false, false, false, false, true, true, true, true]);
        assert!(!streams.pass(0, 8), "one that begins anew");
        // 64 others push it out.
        for other in 0..STREAMS as u64 {
            streams.pass(10_000 + other * 100, 10_008 + other * 100);
        }
        assert!(!streams.pass(32, 40));
        assert!(!Streams::new(0).pass(0, 1 << 30));
    }
}

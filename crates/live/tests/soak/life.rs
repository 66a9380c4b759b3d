//! One life of one stack.

use crate::common::client::Client;
use crate::common::process::Process;
use crate::common::small::{self, Small};
use crate::common::versions::{BLOCK, Knowledge, write_and_fail, write_randomly};
use crate::common::{Served, options, wait_for};
use crate::faults::{self, Fault};
use crate::guest::planted;
use crate::kinds::{Below, Kind, LEG};
use crate::tally::{RIGHT, Tally};
use nandu_base::Rng;
use nandu_live::nbd::wire::cmd;
use nandu_live::{ServeOptions, ctl};
use std::path::{Path, PathBuf};

const KILLS: &str = "kills";

/// Lives through `rounds` rounds. An error says what was lost, or served and wrong.
pub fn live(kind: &Kind, rng: &mut Rng, rounds: u64, tally: &mut Tally) -> Result<(), String> {
    let dir = tempfile::tempdir().expect("a directory");
    let volatile = kind.has_files() && rng.below(2) == 0;
    let folders: Vec<PathBuf> = (0..kind.legs.len()).map(|leg| kind.place(leg, dir.path()).0).collect();
    folders.iter().for_each(|folder| std::fs::create_dir_all(folder).expect("a directory"));
    // A file system that can be filled, for one leg of every third life.
    let _small = (kind.tolerant && rng.below(3) == 0)
        .then(|| Small::mount(&folders[rng.below(folders.len() as u64) as usize], LEG + (1 << 20)));
    let mut life = Life {
        kind,
        dir: dir.path(),
        volatile,
        known: Knowledge::new(kind.blocks),
        tally,
        older: None,
        history: Vec::new(),
    };
    let ended = life.all(rng, rounds);
    ended
        .map_err(|wrong| format!("{wrong}; volatile caches: {volatile}; so far: {}", life.history.join(", ")))
}

struct Life<'a> {
    kind: &'a Kind,
    dir: &'a Path,
    volatile: bool,
    known: Knowledge,
    tally: &'a mut Tally,
    /// All legs as they were at an earlier clean end.
    older: Option<Vec<Vec<u8>>>,
    history: Vec<&'static str>,
}

impl Life<'_> {
    fn all(&mut self, rng: &mut Rng, rounds: u64) -> Result<(), String> {
        for _ in 0..rounds {
            if self.calm(rng)? {
                self.at_rest(rng)?;
            }
            self.rough(rng)?;
        }
        self.calm(rng)?;
        Ok(())
    }

    fn start(&self, fault: Option<(usize, Fault)>) -> Result<Process, String> {
        let plant = planted().unwrap_or_default();
        Process::try_start(&self.kind.stack(self.volatile, fault), self.dir, &plant)
    }

    /// It was done: counted, and told if this life ends badly.
    fn did(&mut self, what: &'static str) {
        self.tally.count(what, 1);
        self.history.push(what);
    }

    /// Everything is read, and the legs become equal. Whether it was closed, and not killed.
    fn calm(&mut self, rng: &mut Rng) -> Result<bool, String> {
        let process = self.start(None)?;
        let mut client = Client::connect(&process.socket, "data");
        let first = self.look(&mut client)?;
        if self.kind.has_health {
            whole("the set to be whole", || process.status());
            // Which leg is read now is another matter; what was read once stays.
            for (block, data) in first.iter().enumerate() {
                if read(&mut client, block as u64)? != *data {
                    return Err(format!("block {block} flipped back"));
                }
            }
        }
        let requests = 50 + rng.below(300);
        write_randomly(&mut client, &mut self.known, rng, self.kind.blocks, requests);
        if rng.below(3) == 0 {
            process.kill();
            self.killed();
            return Ok(false);
        }
        // Some requests are under way: only what was answered counts.
        drop(client);
        process.stop();
        self.known.closed();
        self.did("clean ends");
        Ok(true)
    }

    /// Load with a fault of one leg, and a kill.
    fn rough(&mut self, rng: &mut Rng) -> Result<(), String> {
        let fault = self.kind.draw(rng, self.dir);
        let small =
            fault.filter(|(_, fault)| *fault == Fault::Full).map(|(leg, _)| self.kind.place(leg, self.dir).0);
        if let Some(folder) = &small {
            small::fill(folder);
        }
        self.did(fault.map_or("no fault", |(_, fault)| fault.name()));
        let requests = 100 + rng.below(600);
        match self.start(fault) {
            // A leg that fails while it is opened.
            Err(_) if fault.is_some() => self.did("starts refused under a fault"),
            Err(said) => return Err(format!("it does not start without a fault: {said}")),
            Ok(process) => {
                let failed = Client::try_connect(&process.socket, "data").and_then(|mut client| {
                    write_and_fail(&mut client, &mut self.known, rng, self.kind.blocks, requests)
                });
                self.tally.count("failed requests", failed.unwrap_or(0));
                process.kill();
                self.killed();
            }
        }
        if let Some(folder) = &small {
            small::make_room(folder);
        }
        Ok(())
    }

    fn killed(&mut self) {
        self.known.cut();
        self.did(if self.volatile { "kills that are power cuts of the legs" } else { KILLS });
    }

    fn look(&mut self, client: &mut Client) -> Result<Vec<Vec<u8>>, String> {
        self.tally.count(RIGHT, self.kind.blocks);
        look(client, &mut self.known, self.kind.blocks)
    }

    /// What may happen to the files of a stack that was closed.
    fn at_rest(&mut self, rng: &mut Rng) -> Result<(), String> {
        match self.kind.below {
            Below::Files { .. } => {}
            Below::Ssd => return self.flip_store(rng),
            Below::SsdAndHdd => return self.put_an_older_store(rng),
            // The image of a disk has no checksums, and there is nobody who could know an older one.
            Below::Hdd => return Ok(()),
        }
        let leg = rng.below(self.kind.legs.len() as u64) as usize;
        let file = self.kind.place(leg, self.dir).1;
        match rng.below(3) {
            0 if self.kind.knows_old => self.put_an_older_copy(leg, &file),
            1 if self.kind.is_checked() => self.flip_data(&file, rng),
            2 if self.kind.knows_old && leg >= self.kind.first_with_records => self.flip_records(&file, rng),
            _ => Ok(()),
        }
    }

    /// A bit of the store of a flash drive: refused with its place and unchanged, or right, or an error where a page of the host is damaged.
    fn flip_store(&mut self, rng: &mut Rng) -> Result<(), String> {
        let (store, saved) = (self.dir.join("m.store"), self.dir.join("saved"));
        faults::copy_store(&store, &saved);
        faults::flip_store(&store, rng);
        match after_a_flip(self.options(), &store, &mut self.known, self.kind.blocks)? {
            None => self.did("damaged stores refused"),
            Some(unreadable) => {
                self.tally.count("damaged blocks that are unreadable", unreadable);
                self.did("damaged stores borne");
            }
        }
        std::fs::rename(saved, store).expect("it is ours");
        Ok(())
    }

    /// An older copy of the store of one of two drives is refused by the mirror above.
    fn put_an_older_store(&mut self, rng: &mut Rng) -> Result<(), String> {
        let stores = self.kind.legs.iter().map(|leg| self.dir.join(format!("{leg}.store")));
        let stores: Vec<PathBuf> = stores.collect();
        let aside = |store: &Path, word: &str| store.with_extension(word);
        if !aside(&stores[0], "older").exists() {
            stores.iter().for_each(|store| faults::copy_store(store, &aside(store, "older")));
            return Ok(());
        }
        // A drive that was opened has gone on, though the mirror above has not.
        stores.iter().for_each(|store| faults::copy_store(store, &aside(store, "saved")));
        let old = rng.pick(&stores);
        faults::copy_store(&aside(old, "older"), old);
        match Served::try_start(self.options()) {
            Ok(_) => return Err(format!("an older copy of {} is believed", old.display())),
            Err(error) if error.to_string().contains("old") => {}
            Err(error) => return Err(format!("an older store is refused for another reason: {error}")),
        }
        for store in &stores {
            std::fs::rename(aside(store, "saved"), store).expect("it is ours");
        }
        self.did("older copies refused");
        Ok(())
    }

    /// It is refused, and not changed.
    fn put_an_older_copy(&mut self, leg: usize, file: &Path) -> Result<(), String> {
        let now = std::fs::read(file).expect("a leg is a file");
        let Some(older) = &self.older else {
            let legs = (0..self.kind.legs.len()).map(|leg| self.kind.place(leg, self.dir).1);
            self.older = Some(legs.map(|file| std::fs::read(file).expect("a leg is a file")).collect());
            return Ok(());
        };
        std::fs::write(file, &older[leg]).expect("it is ours");
        match Served::try_start(self.options()) {
            Ok(_) => return Err(format!("an older copy of leg {leg} is believed")),
            Err(error) if error.to_string().contains("old") => {}
            Err(error) => {
                return Err(format!("an older copy of leg {leg} is refused for another reason: {error}"));
            }
        }
        if std::fs::read(file).expect("a leg is a file") != older[leg] {
            return Err(format!("an older copy of leg {leg} is refused and changed"));
        }
        std::fs::write(file, now).expect("it is ours");
        self.did("older copies refused");
        Ok(())
    }

    /// With checksums below no wrong block is served; above a set it is mended.
    fn flip_data(&mut self, file: &Path, rng: &mut Rng) -> Result<(), String> {
        let saved = std::fs::read(file).expect("a leg is a file");
        faults::flip_data(file, rng, self.kind.blocks / 2 * BLOCK);
        let server = Served::try_start(self.options()).map_err(|error| format!("flipped data: {error}"))?;
        let mut client = server.connect("data");
        if self.kind.tolerant {
            self.look(&mut client)?;
            mend(&server);
        } else {
            let unreadable = look_or_fail(&mut client, &mut self.known, self.kind.blocks)?;
            self.tally.count("damaged blocks that are unreadable", unreadable);
        }
        client.disconnect();
        server.stop();
        if !self.kind.tolerant {
            std::fs::write(file, saved).expect("it is ours");
        }
        self.did("legs with flipped data");
        Ok(())
    }

    /// A bit of the records at the end of a leg: refused, or right.
    fn flip_records(&mut self, file: &Path, rng: &mut Rng) -> Result<(), String> {
        let legs: Vec<PathBuf> =
            (0..self.kind.legs.len()).map(|leg| self.kind.place(leg, self.dir).1).collect();
        let saved: Vec<Vec<u8>> =
            legs.iter().map(|leg| std::fs::read(leg).expect("a leg is a file")).collect();
        faults::flip(file, rng, (LEG - (128 << 10), LEG));
        match Served::try_start(self.options()) {
            Err(_) => self.did("flipped records refused"),
            Ok(server) => {
                let mut client = server.connect("data");
                let unreadable = look_or_fail(&mut client, &mut self.known, self.kind.blocks)?;
                if self.kind.tolerant && unreadable > 0 {
                    return Err(format!("one flipped record makes {unreadable} blocks unreadable"));
                }
                client.disconnect();
                server.stop();
                self.did("flipped records borne");
            }
        }
        for (leg, bytes) in legs.iter().zip(saved) {
            std::fs::write(leg, bytes).expect("it is ours");
        }
        Ok(())
    }

    fn options(&self) -> ServeOptions {
        ServeOptions { create: false, ..options(&self.kind.stack(self.volatile, None), self.dir) }
    }
}

/// Reads all blocks and holds them against what is known.
pub fn look(client: &mut Client, known: &mut Knowledge, blocks: u64) -> Result<Vec<Vec<u8>>, String> {
    (0..blocks)
        .map(|block| {
            let data = read(client, block)?;
            known.check_sectors(block, &data).map(|()| data)
        })
        .collect()
}

/// As [`look`], where blocks may be unreadable, but never wrong: how many are.
pub fn look_or_fail(client: &mut Client, known: &mut Knowledge, blocks: u64) -> Result<u64, String> {
    let mut unreadable = 0;
    for block in 0..blocks {
        match client.call(cmd::READ, 0, block * BLOCK, BLOCK as u32, &[]) {
            Ok(data) => known.check_sectors(block, &data)?,
            Err(_) => unreadable += 1,
        }
    }
    Ok(unreadable)
}

/// Serves a damaged store and looks: it is refused with its place, and unchanged (`None`), or some blocks are unreadable and none is wrong.
pub fn after_a_flip(
    options: ServeOptions,
    store: &Path,
    known: &mut Knowledge,
    blocks: u64,
) -> Result<Option<u64>, String> {
    let damaged = faults::sum(store);
    match Served::try_start(options) {
        Err(error) => {
            let said = error.to_string();
            match said.contains("byte ") && faults::sum(store) == damaged {
                true => Ok(None),
                false => Err(format!("a damaged store is refused without its place, or changed: {said}")),
            }
        }
        Ok(server) => {
            let mut client = server.connect("data");
            let unreadable = look_or_fail(&mut client, known, blocks)?;
            client.disconnect();
            server.stop();
            Ok(Some(unreadable))
        }
    }
}

/// A scrub puts right what is wrong on one leg.
pub fn mend(server: &Served) {
    let scrub = "scrub m repair".parse().expect("a command");
    ctl::send(&server.control, &scrub).unwrap_or_else(|error| panic!("scrub: {error}"));
    wait_for("the scrub to end", || {
        (server.status()["devices"]["m"]["counters"]["scrub_is_active"] == 0).then_some(())
    });
}

fn read(client: &mut Client, block: u64) -> Result<Vec<u8>, String> {
    client
        .call(cmd::READ, 0, block * BLOCK, BLOCK as u32, &[])
        .map_err(|errno| format!("block {block} is not readable: errno {errno}"))
}

/// Waits until every set of the stack says that its legs are equal.
pub fn whole(what: &str, mut status: impl FnMut() -> serde_json::Value) {
    wait_for(what, || {
        let status = status();
        let devices = status["devices"].as_object().expect("devices");
        let mut said = devices.values().filter_map(|device| device["health"].as_str());
        said.all(|health| health == "healthy").then_some(())
    });
}

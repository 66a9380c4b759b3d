//! An exhaustive model of openings: three members, cuts between all durable steps, members put back as they were at any earlier stop.
//!
//! A session that is served changes all members. It is right only when each of them holds what the last session left. A start must be refused when one
//! does not, and must not be refused when nobody put anything back.

use nandu_hybrid::generation::{Claim, Generation, decide};
use std::collections::BTreeSet;

const MEMBERS: usize = 3;
const OPENINGS: u8 = 4;

/// What a member holds: its claim, and the number of the last session that changed it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
struct Member {
    generation: (u64, u64),
    base: (u64, u64),
    is_open: bool,
    session: u8,
}

impl Member {
    fn claim(&self) -> Claim {
        let generation = |(number, tag)| Generation { number, tag };
        Claim { generation: generation(self.generation), base: generation(self.base), is_open: self.is_open }
    }
}

/// What a rule of the protocol may be replaced by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    AsItIs,
    /// The generation is fresh only when the set is made.
    Kept,
    /// One phase: each member says at once that it is open.
    OnePhase,
    /// Served when the first phase is durable.
    ServedEarly,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    members: [Member; MEMBERS],
    /// A copy of each member that was taken at a stop.
    copies: [Option<Member>; MEMBERS],
    /// Sessions that were served.
    served: u8,
    openings: u8,
    /// Members that were put back; never all of them, for that nobody can notice.
    put_back: u8,
}

struct Model {
    rule: Rule,
    seen: BTreeSet<World>,
    violations: Vec<String>,
}

impl Model {
    fn run(rule: Rule) -> Model {
        let first = Member { generation: (1, 1), base: (0, 0), is_open: true, session: 0 };
        let start =
            World { members: [first; MEMBERS], copies: [None; MEMBERS], served: 0, openings: 0, put_back: 0 };
        let mut model = Model { rule, seen: BTreeSet::new(), violations: Vec::new() };
        let mut open = vec![start];
        while let Some(world) = open.pop() {
            if model.violations.is_empty() && model.seen.insert(world.clone()) {
                model.stopped(&world, &mut open);
            }
        }
        model
    }

    /// All that can happen while the machine is stopped.
    fn stopped(&mut self, world: &World, open: &mut Vec<World>) {
        for at in 0..MEMBERS {
            let mut next = world.clone();
            match world.copies[at] {
                None if world.copies.iter().flatten().count() < MEMBERS - 1 => {
                    next.copies[at] = Some(world.members[at]);
                }
                Some(copy) if copy != world.members[at] => {
                    (next.members[at], next.copies[at]) = (copy, None);
                    next.put_back += 1;
                }
                _ => continue,
            }
            open.push(next);
        }
        if world.openings < OPENINGS {
            self.start(world, open);
        }
    }

    fn start(&mut self, world: &World, open: &mut Vec<World>) {
        let claims = world.members.map(|member| member.claim());
        let decided = decide(&claims);
        let is_current = world.members.iter().all(|member| member.session == world.served);
        let found = match decided {
            Ok(found) => found,
            Err(stale) => {
                if world.put_back == 0 {
                    self.violations
                        .push(format!("refused ({stale:?}), and nothing was put back: {:?}", world.members));
                }
                return;
            }
        };
        let number = claims.iter().map(|claim| claim.generation.number).max().expect("members") + 1;
        let mut world = World { openings: world.openings + 1, ..world.clone() };
        // The tag of each opening is its own.
        let fresh = match self.rule {
            Rule::Kept => (found.number, found.tag),
            _ => (number, 100 + u64::from(world.openings)),
        };
        let base = (found.number, found.tag);
        for at in 0..MEMBERS {
            let is_open = self.rule == Rule::OnePhase;
            let base = if is_open { (0, 0) } else { base };
            world.members[at] = Member { generation: fresh, base, is_open, ..world.members[at] };
            open.push(world.clone()); // a cut
        }
        if self.rule == Rule::ServedEarly {
            return self.serve(&world, is_current, open);
        }
        for at in 0..MEMBERS {
            world.members[at] = Member { base: (0, 0), is_open: true, ..world.members[at] };
            open.push(world.clone());
        }
        self.serve(&world, is_current, open);
    }

    /// Something is served, and all of it durable. Then it stops, cleanly or not.
    fn serve(&mut self, world: &World, is_current: bool, open: &mut Vec<World>) {
        if !is_current {
            self.violations.push(format!("served with an old member: {:?}", world.members));
        }
        let mut world = World { served: world.served + 1, ..world.clone() };
        world.members.iter_mut().for_each(|member| member.session = world.served);
        open.push(world);
    }
}

#[test]
fn no_old_copy_is_believed_and_no_cut_is_taken_for_one() {
    let model = Model::run(Rule::AsItIs);
    assert_eq!(model.violations, Vec::<String>::new());
    println!("{} states", model.seen.len());
    assert!(model.seen.len() > 5_000, "only {} states: the model shows little", model.seen.len());
}

#[test]
fn each_rule_is_needed() {
    for rule in [Rule::Kept, Rule::OnePhase, Rule::ServedEarly] {
        let model = Model::run(rule);
        assert!(!model.violations.is_empty(), "{rule:?} does no harm in {} states", model.seen.len());
        println!("{rule:?}: {}", model.violations[0]);
    }
}

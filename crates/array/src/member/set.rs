//! The life of a member while the set runs, for arrays of all kinds.
//!
//! A leg *goes* when it says so, fails what it may not fail, hangs, or is replaced by command. It is not used again before it
//! *comes back*: by its own word, or because only its lateness was held against it. Then it waits until its old requests have ended, and is
//! looked at: its records are read after a flush. What they must say, how the others put its absence and its return on record,
//! and how its data become right again is the array's own: a mirror copies what its map says under a leader's word, a parity array
//! rebuilds from the front under a count of changes.
//!
//! [`Roster`] keeps who is there, [`Set`] is what an array says of itself and gets in return. Nothing here writes to a leg.
//!
//! Cost: 40 B and a name for each leg. An event looks at the legs once.

use crate::scrub::Course;
use crate::stall::Stalls;
use nandu_base::{Admin, AdminError, ChildUse, Cx, DeviceEvent, Health, Notice, Span, TimerKey};

/// One member, as the array knows it whatever its records say.
#[derive(Debug)]
pub(crate) struct Seat {
    /// What the stack file calls it.
    pub(crate) name: String,
    /// It is not used again before it says that it is back, or the array is started anew.
    failed: bool,
    /// It has come back and waits to be looked at.
    back: bool,
    /// An operator has replaced it: what comes back must be blank.
    pub(crate) replaced: bool,
    /// What came in its place was blank, and was sent records of this set: from then on it may hold them.
    pub(crate) given: bool,
    /// Requests that are not back, stragglers included.
    in_flight: u32,
}

impl Seat {
    /// A member of this name, there as far as anybody knows.
    pub(crate) fn new(name: String) -> Seat {
        Seat { name, failed: false, back: false, replaced: false, given: false, in_flight: 0 }
    }

    /// A member that is new to the set: blank when it comes.
    pub(crate) fn awaited(name: String) -> Seat {
        Seat { replaced: true, ..Seat::new(name) }
    }

    /// An operator has replaced it.
    pub(crate) fn must_come_blank(&mut self) {
        (self.replaced, self.given) = (true, false);
    }

    /// It goes, and is not used before it comes back.
    pub(crate) fn goes(&mut self) {
        (self.failed, self.back) = (true, false);
    }

    /// It is there and waits to be looked at.
    pub(crate) fn comes_back(&mut self) {
        (self.failed, self.back) = (false, true);
    }

    /// It waits no longer, for it is looked at, or nothing would come of it.
    pub(crate) fn waits_no_more(&mut self) {
        self.back = false;
    }

    /// It fails while it is looked at: what it has said of itself meanwhile stands.
    pub(crate) fn fails(&mut self) {
        self.failed = true;
    }

    /// It waits as well when `is_there`; it may have come back already.
    pub(crate) fn waits_if(&mut self, is_there: bool) {
        self.back |= is_there;
    }

    /// The array is started: whoever is there may be used.
    pub(crate) fn begin(&mut self) {
        (self.failed, self.back) = (false, false);
    }

    /// Whether it is not to be used.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Whether it has come back and waits.
    pub(crate) fn is_back(&self) -> bool {
        self.back
    }

    /// Requests that are not back.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }
}

/// Who is there.
#[derive(Debug)]
pub(crate) struct Roster {
    seats: Vec<Seat>,
    stalls: Stalls,
    /// What was said of the health last.
    told: Health,
}

impl Roster {
    /// Members with these names; one that hangs for `timeout`, zero for never, is left out. `key` is the machine's timer for it.
    pub(crate) fn new(names: &[String], timeout: Span, key: TimerKey) -> Roster {
        let seats = names.iter().cloned().map(Seat::new).collect();
        Roster { seats, stalls: Stalls::new(timeout, key), told: Health::Healthy }
    }

    /// One more member.
    pub(crate) fn push(&mut self, seat: Seat) {
        self.seats.push(seat);
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter()
    }

    /// What the stack file calls them.
    pub(crate) fn names(&self) -> Vec<String> {
        self.seats.iter().map(|seat| seat.name.clone()).collect()
    }

    /// All of them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Seat> {
        self.seats.iter_mut()
    }

    /// Something is sent to a leg.
    #[inline]
    pub(crate) fn sends(&mut self, leg: usize, cx: &mut Cx<'_>) {
        self.seats[leg].in_flight += 1;
        self.stalls.sent(cx);
    }

    /// A request is back. True when it was the last that its leg had under way.
    #[inline]
    pub(crate) fn returned(&mut self, leg: usize) -> bool {
        self.seats[leg].in_flight -= 1;
        self.seats[leg].in_flight == 0
    }

    /// Whether nothing is under way on any leg, stragglers included.
    pub(crate) fn is_home(&self) -> bool {
        self.seats.iter().all(|seat| seat.in_flight == 0)
    }

    /// Whether one has come back and waits.
    pub(crate) fn is_any_back(&self) -> bool {
        self.seats.iter().any(|seat| seat.back)
    }

    /// Whether late answers are to be expected.
    #[inline]
    pub(crate) fn expects_late(&self) -> bool {
        self.stalls.is_on()
    }

    /// The timer of legs that hang was cancelled.
    pub(crate) fn forget_stalls(&mut self) {
        self.stalls.forget();
    }
}

impl std::ops::Index<usize> for Roster {
    type Output = Seat;
    #[inline]
    fn index(&self, leg: usize) -> &Seat {
        &self.seats[leg]
    }
}

impl std::ops::IndexMut<usize> for Roster {
    #[inline]
    fn index_mut(&mut self, leg: usize) -> &mut Seat {
        &mut self.seats[leg]
    }
}

/// What stands in the way of a command, and what would help.
pub(crate) fn refuse<T>(why: impl Into<String>, remedy: &'static str) -> Result<T, AdminError> {
    Err(AdminError::Refused { why: why.into(), remedy })
}

/// An array with members.
pub(crate) trait Set {
    /// Who is there.
    fn roster(&self) -> &Roster;
    /// Who is there.
    fn roster_mut(&mut self) -> &mut Roster;
    /// The scrub, and whether a command that does not say it means to mend.
    fn course(&mut self) -> (&mut Course, bool);

    /// How safely the data are held; nothing while that is not known.
    fn standing(&self) -> Option<Health>;
    /// Whether the array runs and may leave a leg out now.
    fn may_leave_out(&self) -> bool;
    /// Whether it uses the leg in any way.
    fn is_in(&self, leg: usize) -> bool;
    /// Whether requests are served with the leg.
    fn serves(&self, leg: usize) -> bool;
    /// Whether a start or a procedure is looking at the leg, or will unless it has failed.
    fn is_looked_at(&self, leg: usize) -> bool;
    /// Whether the others can serve everything without the leg.
    fn can_do_without(&self, leg: usize) -> bool;
    /// Why a leg cannot be replaced, and what would help.
    fn why_needed(&self, leg: usize) -> Option<(String, &'static str)>;

    /// A leg goes: everything that follows from it in the array, and [`Seat::goes`].
    fn leave(&mut self, leg: usize, cx: &mut Cx<'_>);
    /// A leg that hangs is left out: what waits for it goes on.
    fn leave_late(&mut self, leg: usize, cx: &mut Cx<'_>);
    /// A leg is there again.
    fn regained(&mut self, leg: usize);
    /// Something changed that the array's procedures look at.
    fn stir(&mut self);

    /// What a leg says of itself. An event that is no coming or going is handed back.
    fn heard(&mut self, leg: usize, event: DeviceEvent, cx: &mut Cx<'_>) -> Option<DeviceEvent> {
        match event {
            DeviceEvent::Lost => self.leave(leg, cx),
            DeviceEvent::Back => {
                // What it held in volatile memory is gone, whether or not it said so.
                self.leave(leg, cx);
                self.roster_mut()[leg].comes_back();
                self.regained(leg);
                self.stir();
            }
            other => return Some(other),
        }
        None
    }

    /// The first leg that is out, back and at rest, so that it can be looked at.
    fn returning(&self, cx: &Cx<'_>) -> Option<usize> {
        let is_ready = |leg: &usize| {
            let seat = &self.roster()[*leg];
            seat.back && !self.is_in(*leg) && seat.in_flight == 0 && cx.peek.is_open(*leg as u8)
        };
        (0..self.roster().seats.len()).find(is_ready)
    }

    /// The timer of legs that hang ([`crate::stall`]): the only one that does is left out when the others can do without it. It has not
    /// failed, and comes back when its old requests have ended.
    fn look_for_stalls(&mut self, cx: &mut Cx<'_>) {
        let late = self.roster_mut().stalls.look(cx);
        let may = |leg: &usize| self.may_leave_out() && self.is_in(*leg) && self.can_do_without(*leg);
        if let Some(leg) = late.filter(may) {
            self.leave_late(leg, cx);
            self.roster_mut()[leg].comes_back();
        }
        if !self.roster().is_home() {
            self.roster_mut().stalls.sent(cx);
        }
    }

    /// What the array does with a leg.
    fn use_of(&self, leg: usize) -> ChildUse {
        let seat = &self.roster()[leg];
        // One that has failed is not taken before it says that it is back, whatever goes on beside.
        let comes = seat.back || !seat.failed && self.is_looked_at(leg);
        match (self.serves(leg), comes) {
            (true, _) => ChildUse::Used,
            (false, true) => ChildUse::Coming,
            (false, false) => ChildUse::Out,
        }
    }

    /// Says how safely the data are held when that has changed.
    fn tell_health(&mut self, cx: &mut Cx<'_>) {
        let told = self.roster().told;
        if let Some(health) = self.standing().filter(|&now| now != told) {
            self.roster_mut().told = health;
            cx.event(DeviceEvent::Notice(Notice::Health(health)));
        }
    }

    /// The commands that all arrays obey alike; others are handed back. `replace` leaves a leg out as if it had failed, and what comes
    /// in its place must hold no records.
    ///
    /// # Errors
    /// The array cannot do without the leg, or no scrub is under way.
    fn maintain(&mut self, admin: Admin, cx: &mut Cx<'_>) -> Result<Option<Admin>, AdminError> {
        match admin {
            Admin::Scrub { mends } => {
                let (course, usually) = self.course();
                course.begin(mends.unwrap_or(usually), cx.now);
                self.stir();
            }
            Admin::StopScrub => {
                self.course().0.stop()?;
                self.stir();
            }
            Admin::Replace(child) => {
                let leg = usize::from(child);
                if let Some((why, remedy)) = self.why_needed(leg) {
                    return refuse(why, remedy);
                }
                self.leave(leg, cx);
                self.roster_mut()[leg].must_come_blank();
            }
            other => return Ok(Some(other)),
        }
        Ok(None)
    }
}

//! Operations that wait, and what waits for them.
//!
//! A node is an operation, the answer to a request, or a barrier. It counts what it waits for, and knows whom to tell.
//! Nodes, links and pages lie in slabs whose slots are used again; slot 0 of each means none, so that tables of them
//! cost memory only where they are touched.

use crate::nand::PageTime;
use nandu_base::{Instant, Overlay, ReqId, Span, TenantId, Work};
use nandu_ftl::Ppn;
pub(crate) use nandu_ftl::plan::flash::{After, Job, NONE};

/// What the operations of one request share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub now: Instant,
    /// What each of them waits for.
    pub after: After,
    /// When the map had told where its page is, as far as that is known.
    pub map_at: Instant,
    /// What it is done for.
    pub work: Work,
    pub cause: TenantId,
    /// The answer that waits for it, or [`NONE`].
    pub answer: u32,
    /// Number of the request, for the multi-plane rule.
    pub serial: u32,
}

/// One page of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub ppn: Ppn,
    /// Logical page of a read, out-of-band key of a program.
    pub key: u64,
    /// Number of a program.
    pub seq: u64,
    /// What a program builds on.
    pub base: Option<Ppn>,
    /// What a program brings; of a read, what the write buffer has over the page.
    pub overlay: Option<Overlay>,
    /// Its block is in SLC mode.
    pub slc: bool,
    /// The erase to come that waits for it, or [`NONE`]: see [`Hold`].
    pub hold: u32,
    /// The next page of the operation.
    pub next: u32,
}

impl Page {
    /// A page to read.
    pub fn read(ppn: Ppn, lpn: u32) -> Page {
        Page {
            ppn,
            key: u64::from(lpn),
            seq: 0,
            base: None,
            overlay: None,
            slc: false,
            hold: NONE,
            next: NONE,
        }
    }
}

const NEVER: PageTime =
    PageTime { start: Instant::ZERO, bus: Instant::ZERO, end: Instant::ZERO, gc: Span::ZERO };

/// See the module's page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// Position in the order of issue. What a node waits for has a smaller number; 0 where there is no node.
    pub number: u64,
    /// Not before.
    pub ready: Instant,
    /// When the map had told where the page is.
    pub map_at: Instant,
    /// Garbage collection on the die up to the issue.
    pub gc_before: Span,
    /// What must be done before, and one while it is not issued.
    pub waits: u32,
    pub links: u32,
    pub first_page: u32,
    pub die: u32,
    pub block: u32,
    pub request: ReqId,
    /// What few nodes have beside this, or [`NONE`].
    pub detail: u32,
    pub cause: TenantId,
    pub job: Job,
    pub work: Work,
    /// Whether the operation is one of SLC mode, and the read before it was.
    pub slc: bool,
    pub pre_read_slc: bool,
}

impl Node {
    pub const EMPTY: Node = Node {
        number: 0,
        ready: Instant::ZERO,
        map_at: Instant::ZERO,
        gc_before: Span::ZERO,
        waits: 0,
        links: NONE,
        first_page: NONE,
        die: 0,
        block: 0,
        request: ReqId::NONE,
        detail: NONE,
        cause: TenantId::SYSTEM,
        job: Job::Barrier,
        work: Work::Read,
        slc: false,
        pre_read_slc: false,
    };
}

/// What answers have beside a node, and programs that a read stands before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detail {
    pub issued: Instant,
    /// The read that the program of a part of a page waited for.
    pub pre_read: Option<PageTime>,
    /// Of an answer: the operation that is complete last, and when the map had told where its page is.
    pub slowest: PageTime,
    pub slowest_map_at: Instant,
    pub slowest_job: Job,
    /// Whether it was one of SLC mode, and the read before it.
    pub slowest_slc: bool,
    pub pre_read_slc: bool,
}

impl Detail {
    pub(super) const EMPTY: Detail = Detail {
        issued: Instant::ZERO,
        pre_read: None,
        slowest: NEVER,
        slowest_map_at: Instant::ZERO,
        slowest_job: Job::Answer,
        slowest_slc: false,
        pre_read_slc: false,
    };
}

#[derive(Clone, Copy, Debug)]
struct Link {
    to: u32,
    next: u32,
}

/// What the next erase of a block has to wait for: a count, for nobody asks which operations they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    /// Pages and barriers.
    pub count: u32,
    /// What waits for them, once the erase is issued: it or the gate before it.
    pub erase: u32,
    pub block: u32,
    /// When those that do not count any more are complete.
    pub ready: Instant,
}

/// The slabs.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    nodes: Vec<Node>,
    free: Vec<u32>,
    links: Vec<Link>,
    free_link: u32,
    pages: Vec<Page>,
    free_page: u32,
    holds: Vec<Hold>,
    free_holds: Vec<u32>,
    details: Vec<Detail>,
    free_details: Vec<u32>,
}

impl Nodes {
    pub fn new() -> Nodes {
        Nodes {
            nodes: vec![Node::EMPTY],
            free: Vec::new(),
            links: vec![Link { to: NONE, next: NONE }],
            free_link: NONE,
            pages: vec![Page::read(Ppn(0), 0)],
            free_page: NONE,
            holds: vec![Hold { count: 0, erase: NONE, block: 0, ready: Instant::ZERO }],
            free_holds: Vec::new(),
            details: vec![Detail::EMPTY],
            free_details: Vec::new(),
        }
    }

    pub fn add(&mut self, node: Node) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        }
    }

    /// Living nodes, and blocks that are held.
    pub fn living(&self) -> usize {
        self.nodes.len() - 1 - self.free.len() + self.holds.len() - 1 - self.free_holds.len()
    }

    /// Nothing holds the block yet.
    pub fn add_hold(&mut self, block: u32) -> u32 {
        let hold = Hold { count: 0, erase: NONE, block, ready: Instant::ZERO };
        match self.free_holds.pop() {
            Some(at) => {
                self.holds[at as usize] = hold;
                at
            }
            None => {
                self.holds.push(hold);
                (self.holds.len() - 1) as u32
            }
        }
    }

    pub fn hold_mut(&mut self, at: u32) -> &mut Hold {
        &mut self.holds[at as usize]
    }

    /// One of those that hold a block is complete at `end`; returns what is held when it was the last.
    #[inline]
    pub fn let_go(&mut self, at: u32, end: Instant) -> Option<Hold> {
        let hold = &mut self.holds[at as usize];
        hold.ready = hold.ready.later(end);
        hold.count -= 1;
        if hold.count > 0 {
            return None;
        }
        self.free_holds.push(at);
        Some(self.holds[at as usize])
    }

    /// Nodes of operations that change the flash and have not begun.
    pub fn changes(&self) -> impl Iterator<Item = u32> + '_ {
        let waits = |n: &Node| n.number > 0 && n.job.changes_flash();
        (0..).zip(&self.nodes).filter(move |(_, n)| waits(n)).map(|(at, _)| at)
    }

    /// Gives a node up, with its pages. Its links have been taken.
    pub fn remove(&mut self, at: u32) {
        let mut page = self[at].first_page;
        while page != NONE {
            let next = std::mem::replace(&mut self.pages[page as usize].next, self.free_page);
            self.free_page = page;
            page = next;
        }
        debug_assert!(self[at].links == NONE, "what waits for a node is told before it goes");
        if self[at].detail != NONE {
            self.free_details.push(self[at].detail);
        }
        // A die may still name it as the operation that pages may join.
        (self[at].number, self[at].job) = (0, Job::Barrier);
        self.free.push(at);
    }

    /// What a node has beside the node.
    pub fn detail(&self, at: u32) -> &Detail {
        &self.details[self[at].detail as usize]
    }

    /// The same, to change; it has one from here on.
    pub fn detail_mut(&mut self, at: u32) -> &mut Detail {
        if self[at].detail == NONE {
            self[at].detail = match self.free_details.pop() {
                Some(free) => {
                    self.details[free as usize] = Detail::EMPTY;
                    free
                }
                None => {
                    self.details.push(Detail::EMPTY);
                    (self.details.len() - 1) as u32
                }
            };
        }
        let detail = self[at].detail;
        &mut self.details[detail as usize]
    }

    /// `later` waits for `sooner`.
    pub fn link(&mut self, sooner: u32, later: u32) {
        debug_assert!(self[sooner].waits > 0 || self[sooner].number > 0, "what is waited for is still there");
        let link = Link { to: later, next: self[sooner].links };
        let at = match self.free_link {
            NONE => {
                self.links.push(link);
                (self.links.len() - 1) as u32
            }
            at => {
                self.free_link = self.links[at as usize].next;
                self.links[at as usize] = link;
                at
            }
        };
        self[sooner].links = at;
        self[later].waits += 1;
    }

    /// Takes one of those that wait for `at`.
    pub fn take_link(&mut self, at: u32) -> Option<u32> {
        let link = self[at].links;
        if link == NONE {
            return None;
        }
        let Link { to, next } = self.links[link as usize];
        self[at].links = next;
        self.links[link as usize].next = self.free_link;
        self.free_link = link;
        Some(to)
    }

    /// Adds a page to an operation.
    pub fn add_page(&mut self, node: u32, page: Page) {
        let page = Page { next: self[node].first_page, ..page };
        let at = match self.free_page {
            NONE => {
                self.pages.push(page);
                (self.pages.len() - 1) as u32
            }
            at => {
                self.free_page = self.pages[at as usize].next;
                self.pages[at as usize] = page;
                at
            }
        };
        self[node].first_page = at;
    }

    pub fn page(&self, at: u32) -> &Page {
        &self.pages[at as usize]
    }
}

impl std::ops::Index<u32> for Nodes {
    type Output = Node;
    fn index(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }
}

impl std::ops::IndexMut<u32> for Nodes {
    fn index_mut(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[at as usize]
    }
}

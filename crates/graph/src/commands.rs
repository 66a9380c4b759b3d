//! What an operator asks of a graph: of one machine, or of all of them for a tenant.

use crate::{Driver, Graph, Life, Part};
use nandu_base::{
    Admin, AdminError, ByteLen, Deal, DealError, Dealt, Instant, Limits, Step, TenantId, TenantShare,
};

impl Graph {
    /// The medium of leaf `node` has become longer than what is used of it. Machines above see it in its limits; nothing changes before they are
    /// asked to ([`Admin::Grow`]). What no machine has taken may be taken back.
    pub fn lengthen(&mut self, node: u32, capacity: ByteLen) {
        let node = &mut self.nodes[node as usize];
        let limits = Limits { capacity, ..node.limits().clone() };
        debug_assert!(node.children.is_empty() && limits.capacity >= node.machine.limits().capacity);
        node.grown = Some(Box::new(limits));
    }

    /// Adds `leaf` as the last child of machine `node`, which takes it for one more member when it opens ([`Admin::Extend`]). Its number is the
    /// largest from then on; it is not open.
    ///
    /// # Errors
    /// Why the machine does not take it; then nothing has changed.
    pub fn extend<D: Driver>(
        &mut self,
        node: u32,
        leaf: Part,
        now: Instant,
        driver: &mut D,
    ) -> Result<u32, AdminError> {
        assert!(leaf.children.is_empty(), "only a leaf is added to a graph that runs");
        let (number, child) = (self.nodes.len() as u32, self.nodes[node as usize].children.len() as u8);
        let name = leaf.name.clone();
        self.push(leaf);
        self.nodes[node as usize].children.push(number);
        self.parents[number as usize].push((node, child));
        let answer = self.admin(node, Admin::Extend(name), now, driver);
        if answer.is_err() {
            self.nodes[node as usize].children.pop();
            self.pop();
        }
        answer.map(|()| number)
    }

    /// Asks machine `node` for something on behalf of an operator.
    ///
    /// # Errors
    /// Why it is not done; then nothing has changed.
    pub fn admin<D: Driver>(
        &mut self,
        node: u32,
        admin: Admin,
        now: Instant,
        driver: &mut D,
    ) -> Result<(), AdminError> {
        let mut result = Err(AdminError::Unknown);
        let step = self.call_alone(node, now, |me, cx| {
            if let Some(obeys) = me.machine.administer() {
                result = obeys.admin(admin, cx);
            }
            Step::Idle
        });
        self.follow(node, step, now, driver);
        result
    }

    /// From here on `tenant` may ask for this: every machine that was started hears of it, children first.
    pub fn change_share<D: Driver>(
        &mut self,
        tenant: TenantId,
        share: &TenantShare,
        now: Instant,
        driver: &mut D,
    ) {
        for node in 0..self.nodes.len() as u32 {
            if self.life[node as usize] == Life::Started {
                let step = self.call_alone(node, now, |me, cx| match me.machine.administer() {
                    Some(obeys) => obeys.share_changed(tenant, share, cx),
                    None => Step::Idle,
                });
                self.follow(node, step, now, driver);
            }
        }
    }

    /// Changes the space that tenants have inside one device.
    ///
    /// # Errors
    /// As [`Administer::deal`](nandu_base::Administer::deal).
    pub fn deal<D: Driver>(
        &mut self,
        node: u32,
        deal: Deal,
        now: Instant,
        driver: &mut D,
    ) -> Result<Dealt, DealError> {
        let mut dealt = Err(DealError::Fixed);
        let step = self.call_alone(node, now, |me, cx| {
            if let Some(obeys) = me.machine.administer() {
                dealt = obeys.deal(deal, cx);
            }
            Step::Idle
        });
        self.follow(node, step, now, driver);
        dealt
    }
}

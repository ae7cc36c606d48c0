//! Tests of the node cache.

use super::*;
use crate::radix::inner::{NodeSize, NodeState, image, slot_of_all};
use crate::radix::leaf::{LeafClass, LeafGrain, LeafRef, RawLeaf};
use crate::radix::reverse::Reverse;
use farwood_fabric::{Memory, NodeId};

const INDEX: u32 = 1;

fn at<T>(number: u64) -> Remote<T> {
    Remote::new(NodeId(0), Memory::Host, 4096 + 8 * number).expect("it is not null")
}

fn leaf(partial: u8, number: u64) -> NodeSlot {
    let class = LeafClass::for_entry(LeafGrain::Words, 8, 8).expect("it fits");
    NodeSlot::leaf(partial, LeafRef { at: at::<RawLeaf>(number), class })
}

/// A node with `children` leaves below the partial keys from 0 on.
fn node_of(size: NodeSize, prefix: &[u8], generation: u32, children: u8) -> Inner<Vec<u8>> {
    let header = NodeHeader::new(NodeState::Live, size, 0, prefix.len(), generation);
    let children: Vec<_> = (0..children).map(|byte| (Step::Byte(byte), leaf(0, byte.into()))).collect();
    Inner::new(image(Reverse::unlinked(generation), header, prefix, INDEX, &children))
}

fn node(prefix: &[u8], generation: u32) -> Inner<Vec<u8>> {
    node_of(NodeSize::Four, prefix, generation, 2)
}

fn prefix(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Whether the node with the prefix of this number is cached.
fn has(cache: &NodeCache, number: u32) -> bool {
    cache.search(&prefix(number), 4, 0).is_some_and(|node| node.header.depth() == 4)
}

fn put(cache: &NodeCache, number: u32) {
    cache.put(at(number.into()), &node(&prefix(number), 1));
}

fn whole(cache: &NodeCache, key: &[u8]) -> Arc<CachedNode> {
    cache.path(key).pop().expect("a node is cached")
}

#[test]
fn a_search_finds_the_deepest_node_even_if_those_above_are_not_cached() {
    let cache = NodeCache::new(1 << 20, INDEX);
    assert!(cache.search(b"abcdef", 6, 0).is_none());
    for prefix in [&b""[..], b"ab", b"abcd", b"abxx", b"b"] {
        cache.put(at(1 + prefix.len() as u64), &node(prefix, 1));
    }
    let depth = |key: &[u8], depth_max| {
        cache.search(key, depth_max, 0).map(|found| {
            assert!(found.covers(key, INDEX));
            found.header.depth()
        })
    };
    assert_eq!((depth(b"abcdef", 6), depth(b"abcdef", 4), depth(b"abcdef", 3)), (Some(4), Some(4), Some(2)));
    assert_eq!(
        (depth(b"abz", 3), depth(b"a", 1), depth(b"", 0), depth(b"bzzz", 4)),
        (Some(2), Some(0), Some(0), Some(1))
    );
    for prefix in [&b""[..], b"ab"] {
        cache.remove(&whole(&cache, prefix));
    }
    assert_eq!((depth(b"abcdef", 6), depth(b"abz", 3), depth(b"", 0)), (Some(4), None, None));
}

#[test]
fn long_keys_with_many_prefixes_are_found_again() {
    let cache = NodeCache::new(1 << 20, INDEX);
    let key = vec![7; 4096];
    for depth in (0..=4096).step_by(16) {
        cache.put(at(depth as u64), &node(&key[..depth], 1));
    }
    for end in (0..=4096).step_by(16) {
        let other = [&key[..end], b"x"].concat();
        cache.start_depths.put(&other, end);
        let found = cache.search(&other, other.len().min(4096), 0).expect("it is cached");
        assert_eq!(found.header.depth(), end);
    }
}

#[test]
fn a_recorded_depth_without_a_node_does_not_hide_the_root() {
    let cache = NodeCache::new(1 << 20, INDEX);
    let (key, filler) = ([7; 300], [9; 300]);
    (1..200).for_each(|depth| cache.put(at(depth), &node(&filler[..depth as usize], 1)));
    cache.put(at(900), &node(b"", 1));
    cache.record_end(&key, 150);
    assert_eq!(cache.start_depths.get(&key), Some(150));
    assert_eq!(cache.search(&key, key.len(), 0).map(|found| found.header.depth()), Some(0));
    assert_eq!(cache.start_depths.get(&key), Some(0), "the next search begins there");
    cache.start_depths.put(&key, 150);
    assert!(cache.search(&key, 100, 0).is_some());
    assert_eq!(cache.start_depths.get(&key), Some(150), "a restricted search records nothing");
}

#[test]
fn a_search_starts_where_the_last_one_for_the_key_ended() {
    let cache = NodeCache::new(1 << 20, INDEX);
    let key = b"a key with a long prefix";
    (0..20).for_each(|depth| cache.put(at(depth), &node(&key[..depth as usize], 1)));
    (0..100).for_each(put_at_depth_one(&cache));
    assert_eq!((cache.depths().commonest(), cache.start_depths.get(key)), (1, None));
    // No slot of the node at depth 1 leads on, so the search ends there.
    assert_eq!(cache.search(key, key.len(), 0).map(|found| found.header.depth()), Some(1));
    cache.start_depths.put(key, 19);
    assert_eq!(cache.search(key, key.len(), 0).map(|found| found.header.depth()), Some(19));
}

fn put_at_depth_one(cache: &NodeCache) -> impl Fn(u64) {
    |number| cache.put(at(1000 + number), &node(&[number as u8], 1))
}

impl NodeCache {
    fn depths(&self) -> &DepthSet {
        &self.store.depths
    }
}

#[test]
fn the_cache_grows_with_the_copies() {
    let cache = NodeCache::new(256 << 20, INDEX);
    let empty = cache.bytes().0;
    assert!(empty < 1 << 20, "{empty}");
    for number in 0..100_000 {
        put(&cache, number);
    }
    assert!((0..100_000).all(|number| has(&cache, number)));
    let per_copy = (cache.bytes().0 - empty) / 100_000;
    assert!((40 + 9..40 + 25).contains(&per_copy), "{per_copy} bytes for a copy of 40 bytes");
}

#[test]
fn the_budget_is_kept_and_a_node_in_use_stays() {
    const BUDGET: usize = 1 << 20;
    let cache = NodeCache::new(BUDGET, INDEX);
    for number in 0..60_000 {
        put(&cache, number);
        assert!(has(&cache, number) && has(&cache, 0), "{number}");
    }
    let (used, budget) = cache.bytes();
    assert!(used <= budget && used > budget * 9 / 10, "{used} of {budget}");
    let kept = (0..60_000).filter(|&number| has(&cache, number)).count();
    assert!(kept > BUDGET / 80, "{kept} copies of 40 bytes in {BUDGET} bytes");
}

#[test]
fn first_in_first_out_evicts_a_node_in_use_and_keeps_no_root() {
    const BUDGET: usize = 1 << 20;
    let cache = NodeCache::new(BUDGET, INDEX).with_policy(CachePolicy::FirstIn);
    cache.put(at(0), &node(b"", 1));
    assert!(cache.path(b"a").is_empty());
    let is_in_use = |number| {
        put(&cache, number);
        has(&cache, 0)
    };
    let kept = (0..60_000).take_while(|number| is_in_use(*number)).count();
    assert!((BUDGET / 120..BUDGET / 40).contains(&kept), "{kept}");
    assert!(
        (0..60_000).filter(|&number| has(&cache, number)).all(|number| number as usize + BUDGET / 40 > kept)
    );
}

/// Every search uses a tenth of the nodes that the cache holds.
#[test]
fn a_small_cache_keeps_the_nodes_in_use() {
    for (budget, hot, size, children) in
        [(32 << 10, 30, NodeSize::Four, 2), (1 << 20, 40, NodeSize::All, 255)]
    {
        let cache = NodeCache::new(budget, INDEX);
        let put = |number| cache.put(at(number), &node_of(size, &prefix(number as u32), 1, children));
        (0..hot).for_each(put);
        let mut lost = 0;
        for number in hot..hot + 10_000 {
            put(number);
            for hot in 0..hot {
                if !has(&cache, hot as u32) {
                    lost += 1;
                    put(hot);
                }
            }
        }
        assert!(lost < 50, "{lost} evictions hit a node in use");
    }
}

#[test]
fn every_budget_is_kept_with_nodes_of_every_size() {
    for budget in (0..32 << 10).step_by(509).chain([1 << 16, 1 << 20]) {
        let cache = NodeCache::new(budget, INDEX);
        for number in 0..1000 {
            let size = NodeSize::FIXED[number as usize % 4];
            cache.put(at(number), &node_of(size, &prefix(number as u32), 1, size.slots().min(200) as u8));
            assert!(cache.bytes().0 <= budget, "{budget}");
        }
        assert!(budget < 20 << 10 || cache.bytes().0 > budget / 2, "{budget}");
    }
}

#[test]
fn memory_of_large_copies_is_used_for_small_ones_and_back() {
    const BUDGET: usize = 2 << 20;
    let cache = NodeCache::new(BUDGET, INDEX);
    let kept = |numbers: std::ops::Range<u32>| numbers.filter(|&number| has(&cache, number)).count();
    for round in 0..3 {
        let first = round * 1_000_000;
        for number in first..first + 4000 {
            cache.put(at(number.into()), &node_of(NodeSize::All, &prefix(number), 1, 200));
        }
        assert!(kept(first..first + 4000) > BUDGET / 1700 / 3, "{round}");
        (first + 4000..first + 100_000).for_each(|number| put(&cache, number));
        assert!(kept(first + 4000..first + 100_000) > BUDGET / 60 / 2, "{round}");
    }
    assert!(cache.bytes().0 <= BUDGET);
}

#[test]
fn a_learned_slot_is_shown_at_once() {
    for size in NodeSize::FIXED.into_iter().chain(NodeSize::TYPED) {
        let cache = NodeCache::new(1 << 20, INDEX);
        cache.put(at(0), &node_of(size, b"a", 1, 0));
        let copy = whole(&cache, b"a");
        for byte in 0..size.slots().min(256) {
            let partial = byte as u8;
            let number = if size == NodeSize::All { slot_of_all(Step::Byte(partial)) } else { 1 + byte };
            cache.learn(&copy, number, leaf(partial, 3));
            let found = cache.search(&[b'a', partial], 2, 0).expect("it is cached");
            assert_eq!(found.find(&[b'a', partial]), SlotSearch::Slot(number, leaf(partial, 3)));
            let vacant = NodeSlot::vacant(partial, 1);
            cache.learn(&copy, number, vacant);
            assert_eq!(whole(&cache, b"a").slot(number), vacant);
            cache.learn(&copy, number, leaf(partial, 4));
        }
        let end = leaf(0, 9);
        cache.learn(&copy, 0, end);
        assert_eq!(cache.search(b"a", 1, 0).map(|found| found.find(b"a")), Some(SlotSearch::Slot(0, end)));
        assert_eq!(whole(&cache, b"a").children().count(), 1 + size.slots());
    }
}

#[test]
fn a_copy_grows_in_place_with_its_node() {
    let cache = NodeCache::new(1 << 20, INDEX);
    let node = node_of(NodeSize::Typed4, b"a", 1, 0);
    cache.put(at(0), &node);
    let copy = whole(&cache, b"a");
    let find = |byte: u8| cache.search(&[b'a', byte], 2, 0).expect("it is cached").find(&[b'a', byte]);
    (0..5_u8).for_each(|byte| cache.learn(&copy, 1 + usize::from(byte), leaf(byte, 3)));
    assert_eq!(find(9), SlotSearch::Outgrown);
    cache.grow(&copy, node.header().with_size(NodeSize::Typed8));
    assert_eq!(find(9), SlotSearch::Free(6, NodeSlot::free(1)));
    assert_eq!(find(4), SlotSearch::Slot(5, leaf(4, 3)));
    cache.grow(&copy, node.header());
    assert_eq!(whole(&cache, b"a").header.size(), NodeSize::Typed8, "a type never shrinks");
    cache.learn(&copy, 6, leaf(9, 3));
    assert_eq!(find(9), SlotSearch::Slot(6, leaf(9, 3)));
}

#[test]
fn a_copy_holds_one_generation_and_a_prefix_has_one_copy() {
    let cache = NodeCache::new(1 << 20, INDEX);
    cache.put(at(0), &node(b"a", 1));
    let one = whole(&cache, b"a");
    cache.learn(&one, 3, NodeSlot::vacant(7, 2));
    assert_eq!(whole(&cache, b"a").slot(3), NodeSlot::free(1));
    cache.put(at(0), &node(b"a", 2));
    cache.learn(&one, 3, leaf(7, 7));
    let two = whole(&cache, b"a");
    assert_eq!((two.header.generation(), one.header.generation(), two.slot(3)), (2, 1, NodeSlot::free(2)));
    cache.put(at(5), &node(b"a", 1));
    cache.remove(&two);
    assert_eq!(whole(&cache, b"a").at, at(5), "another node has taken the place of the removed one");
    cache.remove(&whole(&cache, b"a"));
    assert!(cache.path(b"a").is_empty());
}

#[test]
fn a_node_that_was_read_again_is_no_longer_outdated() {
    let cache = NodeCache::new(1 << 20, INDEX);
    cache.put(at(0), &node(b"a", 1));
    let is_outdated = || cache.search(b"a", 1, 0).expect("it is cached").is_outdated();
    assert!(!is_outdated());
    cache.mark_lost(&whole(&cache, b"a"));
    assert!(is_outdated());
    cache.put(at(0), &node(b"a", 1));
    assert!(!is_outdated());
}

/// A view has the slot of one key. For any other slot, the client reads the node.
#[test]
fn a_view_has_no_slots_of_other_keys() {
    let cache = NodeCache::new(1 << 20, INDEX);
    cache.put(at(0), &node(b"a", 1));
    let view = cache.search(b"a\x01", 2, 0).expect("it is cached");
    assert_eq!(view.find(b"a\x01"), SlotSearch::Slot(2, leaf(1, 1)));
    assert_eq!((view.slot(2), view.slot(1).child()), (leaf(1, 1), Child::Damaged));
    assert!(matches!(view.find(b"a\x00"), SlotSearch::Slot(_, slot) if slot.child() == Child::Damaged));
    assert_eq!(view.children().count(), 0);
}

#[test]
fn views_in_use_are_not_overwritten() {
    let cache = NodeCache::new(1 << 20, INDEX);
    (0..200).for_each(|number| put(&cache, number));
    let views: Vec<_> =
        (0..200).map(|number| cache.search(&prefix(number), 4, 0).expect("it is cached")).collect();
    assert!((0..200).zip(&views).all(|(number, view)| view.at == at(number)));
    drop(views);
    assert_eq!(cache.search(&prefix(3), 4, 0).map(|view| view.at), Some(at(3)));
}

#[test]
fn concurrent_changes_leave_one_copy_and_no_gaps_in_the_account() {
    let cache = NodeCache::new(1 << 20, INDEX);
    std::thread::scope(|scope| {
        for generation in 1..5 {
            let cache = &cache;
            scope.spawn(move || {
                for number in 0..20_000 {
                    let (kept, removed) = (prefix(number % 7), prefix(number % 5));
                    cache.put(at(1), &node(&kept, generation));
                    let copy = CachedNode::copy(at(1), &node(&removed, generation));
                    cache.learn(&copy, 3, leaf(9, 9));
                    cache.remove(&copy);
                }
            });
        }
    });
    for number in 0..7 {
        cache.remove(&CachedNode::copy(at(1), &node(&prefix(number), 1)));
    }
    assert!((0..7).all(|number| !has(&cache, number)));
    assert_eq!(cache.lock().pages.live_words(), 0);
}

/// The slots of a node always lead to leaves of its own prefix and partial keys: a reader that sees another one has
/// read a torn copy. Nodes of all sizes are inserted, changed and evicted meanwhile.
#[test]
fn a_search_never_sees_a_torn_copy() {
    const NODES: u64 = 600;
    let cache = NodeCache::new(128 << 10, INDEX);
    let child = |number: u64, partial: u8| leaf(partial, 1 + number * 256 + u64::from(partial));
    let writer = |seed: u64| {
        let mut random = seed;
        for _ in 0..60_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (number, partial) = ((random >> 33) % NODES, (random >> 50) as u8);
            let size = NodeSize::FIXED[number as usize % 4];
            let copy = node_of(size, &prefix(number as u32), 1, 0);
            if random >> 60 < 4 {
                cache.put(at(number), &copy);
            }
            let copy = CachedNode::copy(at(number), &copy);
            let slot = 1 + usize::from(partial) % size.slots();
            cache.learn(&copy, slot, child(number, (slot - 1) as u8));
            if random >> 60 == 15 {
                cache.remove(&copy);
            }
        }
    };
    let reader = |seed: u64| {
        let (mut random, mut found) = (seed, 0);
        for _ in 0..200_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (number, partial) = ((random >> 33) % NODES, (random >> 50) as u8);
            let key = [&prefix(number as u32)[..], &[partial]].concat();
            let Some(view) = cache.search(&key, 4, seed as usize) else { continue };
            assert_eq!((view.at, view.header.depth()), (at(number), 4));
            if let SlotSearch::Slot(_, slot) = view.find(&key)
                && slot.is_occupied()
            {
                assert_eq!(slot, child(number, partial));
                found += 1;
            }
        }
        assert!(found > 100, "{found}");
    };
    std::thread::scope(|scope| {
        (0..2).for_each(|seed| drop(scope.spawn(move || writer(seed))));
        (2..4).for_each(|seed| drop(scope.spawn(move || reader(seed))));
    });
    assert!(cache.bytes().0 <= 128 << 10);
}

#[test]
fn copies_of_whole_nodes_take_the_memory_of_256_slots() {
    for budget in [200 << 10, 4 << 20] {
        let kept = |cache: NodeCache| {
            (0..20_000).for_each(|number| put(&cache, number));
            (0..20_000).filter(|&number| has(&cache, number)).count()
        };
        let whole = kept(NodeCache::new(budget, INDEX).with_whole_nodes());
        let expected = budget / NodeSize::All.bytes();
        assert!((expected * 3 / 4..expected * 5 / 4).contains(&whole), "{whole} in {budget} bytes");
        assert!(kept(NodeCache::new(budget, INDEX)) > 8 * whole);
    }
}

#[test]
fn a_copy_of_a_cache_has_and_evicts_the_same_nodes() {
    let cache = NodeCache::new(64 << 10, INDEX);
    (0..2_000).for_each(|number| put(&cache, number));
    let copy = cache.copy();
    let kept = |cache: &NodeCache| (0..4_000).filter(|&number| has(cache, number)).collect::<Vec<_>>();
    assert_eq!(copy.bytes(), cache.bytes());
    assert!(kept(&cache).len() > 100);
    assert_eq!(kept(&copy), kept(&cache));
    let before = kept(&cache);
    (2_000..4_000).for_each(|number| put(&copy, number));
    assert_eq!(kept(&cache), before, "changes of the copy do not change the cache");
    (2_000..4_000).for_each(|number| put(&cache, number));
    assert_eq!(kept(&copy), kept(&cache), "both evict the same nodes");
}

#[test]
fn the_bytes_in_use_follow_from_the_nodes_and_hardly_from_the_budget() {
    let filled = |budget: usize| {
        let cache = NodeCache::new(budget, INDEX);
        (0..2_000).for_each(|number| put(&cache, number));
        assert!((0..2_000).all(|number| has(&cache, number)));
        cache.bytes().0
    };
    let small = filled(1 << 20);
    for budget in [16 << 20, 256 << 20] {
        let bytes = filled(budget);
        assert!(bytes < small + budget / 64, "{bytes} of {budget} bytes, and {small} of 1 MiB");
    }
}

#[test]
fn without_a_budget_nothing_is_cached() {
    let cache = NodeCache::new(0, INDEX);
    cache.put(at(0), &node(b"", 1));
    assert!(cache.search(b"", 0, 0).is_none() && cache.path(b"").is_empty());
    assert_eq!(cache.bytes(), (0, 0));
}

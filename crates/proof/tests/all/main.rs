//! All tests of indexes on fabrics. They are modules of one program, so that the linker runs once.
//!
//! `cargo test -p farwood-proof --test all sherman::` runs the tests of one system.

mod adaptive_lookups;
mod added_nodes;
mod catfish {
    mod costs;
    mod killed_processes;
    mod silent_servers;
    mod simulator;
    mod threads;
}
mod coverage_marks;
mod damage;
mod dropped;
mod exchanges;
mod fabric {
    mod rdma;
    mod shm;
    mod shm_processes;
    mod simulator;
    mod tcp;
}
mod killed_writers;
mod lock_timeouts;
mod power_loss;
mod radix;
mod superblock;
mod sherman {
    mod adverse_schedules;
    mod churn;
    mod costs;
    mod cpu_work;
    mod crash_points;
    mod fabric_mutants;
    mod interleavings;
    mod memory_reuse;
    mod model;
    mod mutants;
    mod processes;
    mod scale;
    mod simulator;
    mod snapshots;
    mod threads;
    mod unlinked_leaves;
    mod values;
}
mod smart {
    mod changed_values;
    mod costs;
    mod crash_points;
    mod interleavings;
    mod model;
    mod mutants;
    mod reverse_pointers;
    mod scans;
    mod simulator;
}
mod sphinx {
    mod costs;
    mod crash_points;
    mod interleavings;
    mod model;
    mod mutants;
    mod one_slot;
    mod simulator;
}
mod stopped_writers;
mod tcp_load;

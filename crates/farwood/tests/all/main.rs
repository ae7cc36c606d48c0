//! Tests of the library through its public interface.

mod alone;
mod anonymous;
mod async_spatial;
mod async_tasks;
mod batches;
mod coordinates;
mod counters;
mod damage;
mod dropped;
mod exact;
mod examples;
mod fork;
mod full;
mod library;
mod metrics;
mod random;
mod records;
mod service;
mod shapely;
mod smart;
mod spatial_paths;
mod spatial_pool;
mod spatial_sessions;
mod suspended;
mod testing;
mod types;

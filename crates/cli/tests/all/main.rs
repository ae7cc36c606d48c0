//! Tests of the real binary in separate processes, with valid and invalid input: exit codes, stdout and stderr.

mod bench;
mod configuration;
mod coordinates;
mod damage;
mod demo;
mod deploy;
mod entries;
mod etcd;
mod file_systems;
mod files;
mod geometries;
mod geopackage;
mod geoparquet;
mod handbook;
mod load;
mod machine;
mod messages;
mod netns;
mod pools;
mod processes;
mod radix;
mod remedies;
mod serve;
mod simulator;
mod spatial;
mod terminal;

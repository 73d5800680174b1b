//! Real control planes, clients and checkers for Hawser's tests, benchmarks and examples.

// Package direct runs Beam pipelines in this process. It opens no port and starts no
// process, and so runs for any user wherever Go programs run.
//
//	result, err := direct.Execute(ctx, p)
//
// Beam's package exec executes the steps, from the same descriptors that a worker gets from
// a runner. This package does what a runner does. It cuts the pipeline into stages, keeps
// elements, states, timers and groups in memory, computes watermarks, and decides what runs
// next. An element is encoded only if it passes from one stage to another.
//
// # What is supported
//
//   - ParDo with side inputs and several outputs, Flatten, also of different coders,
//     Reshuffle, GroupByKey, CoGroupByKey, Combine, WindowInto, TestStream.
//   - Splittable functions, bounded and unbounded, which may defer the rest of a
//     restriction for any time, and which may estimate watermarks. The runner splits no
//     restriction by itself.
//   - Value, bag, combining, map, set and ordered-list state. State of a window is
//     forgotten when the watermark has passed the window and its allowed lateness, and no
//     timer of it is set.
//   - Timers in event time and in processing time, with tags and output timestamps.
//   - Global, fixed, sliding and session windows, the default trigger, allowed lateness,
//     and accumulating and discarding panes.
//   - Bundle finalization, metrics, and cancellation.
//
// A side input is ready for an element when the watermark has passed the window of the side
// input that the element's window maps to. A side input in the global window is therefore
// ready when its input has ended.
//
// Execute refuses any other trigger that a GroupByKey would need, a stateful function on
// windows that merge, and transforms of other languages. The error names the transform.
//
// # Order and parallelism
//
// Elements of a key are processed one after the other, in the order in which they were
// emitted, before the timers of the key that have become due. Two stages may run at the same
// time. One stage runs one bundle at a time, unless Runner.Shards is above 1: then keys are
// dealt to shards by hash.
//
// A splittable function is not called while more than 64 MiB of elements wait between
// stages.
//
// # Failure
//
// The first error of a function ends the run. The state is in memory: nothing survives the
// process, and nothing is tried again. The error is an *Error with the step's name, and
// wraps the error that the function has returned. A function that panics, or that ends its
// goroutine as Fatal of a testing.T does, has failed too.
package direct

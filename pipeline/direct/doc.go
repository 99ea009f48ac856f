// Package direct runs Beam pipelines in the current process. It opens no port and starts no process, so it runs for
// any user on any platform that Go supports.
//
//	result, err := direct.Execute(ctx, p)
//
// Beam's package exec executes the steps, from the same descriptors that a worker gets from a runner. This package is
// the runner: it divides the pipeline into stages, stores elements, states, timers and groups in memory, computes
// watermarks, and schedules bundles. An element is encoded only when it passes from one stage to another.
//
// # What is supported
//
//   - ParDo with side inputs and several outputs, Flatten (also of different coders),
//     Reshuffle, GroupByKey, CoGroupByKey, Combine, WindowInto, TestStream.
//   - Splittable functions, bounded and unbounded, which may defer the rest of a
//     restriction for any time, and which may estimate watermarks. The runner splits no
//     restriction by itself.
//   - Value, bag, combining, map, set and ordered-list state. The state of a window is
//     deleted when the watermark has passed the window and its allowed lateness, and no
//     timer is set for the window.
//   - Timers in event time and in processing time, with tags and output timestamps.
//   - Global, fixed, sliding and session windows, the default trigger, allowed lateness,
//     and accumulating and discarding panes.
//   - Bundle finalization, metrics, and cancellation.
//
// A side input is ready for an element when the watermark has passed the window of the side input that the element's
// window maps to. A side input in the global window is therefore ready when its input has ended.
//
// Execute returns an error for other triggers of a GroupByKey, for a stateful function on merging windows, and for
// transforms of other languages. The error names the transform.
//
// # Order and parallelism
//
// Elements of a key are processed one after the other, in the order in which they were emitted, before the key's
// timers that are due. Different stages may run at the same time. One stage runs one bundle at a time, unless
// Runner.Shards is above 1: then keys are assigned to shards by hash.
//
// A splittable function is not called while more than 64 MiB of elements wait between stages.
//
// # Failure
//
// The first error of a function ends the run. The state is in memory: nothing survives the process, and nothing is
// retried. The error is an *Error with the step's name, and wraps the error that the function returned. A function
// that panics, or that ends its goroutine as testing.T.Fatal does, has failed too.
package direct

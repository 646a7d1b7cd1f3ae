// What Hopper's tensor cores and barriers ask for in PTX, each as one function. wgmma multiplies from shared
// memory, for a warpgroup (four warps) and without waiting; mma.sync multiplies registers of one warp.
#pragma once

#include <cstdint>

__device__ unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

__device__ void make_barrier(std::uint64_t& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}

// One arrival a warp, when all of its lanes are there.
__device__ void arrive(std::uint64_t& barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
  }
}

// Until the barrier's phase of this number (they count from 0) is complete.
__device__ void await(std::uint64_t& barrier, int phase) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(shared_address(&barrier)),
      "r"(phase & 1)
      : "memory");
}

// The block's barriers by number, for some of its threads: waiting for the others, and not waiting.
__device__ void meet(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

__device__ void announce(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// wgmma reads shared memory by a path of its own: what threads wrote is there for it only after this.
__device__ void show_to_wgmma() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Where an operand of wgmma lies whose rows (channels of the weights, pixels of the image) are 16 bytes, 8
// values of the sum: rows follow each other, the next 8 values of all rows are `next` bytes further.
__device__ std::uint64_t narrow(const void* at, unsigned next) {
  return (shared_address(at) >> 4) | std::uint64_t{next >> 4} << 16 | std::uint64_t{128 >> 4} << 32;
}

// One whose rows are 128 bytes, 64 values, with their eighths in the order that no bank is asked twice for
// (place). A tap of a convolution is another row to begin at: hardware takes the order from the address, not
// from the start.
__device__ std::uint64_t wide(const void* at) {
  return (shared_address(at) >> 4) | std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 62;
}

// One that is 128 bytes of zeros, read as if they were all rows.
__device__ std::uint64_t same(const void* zeros) {
  return shared_address(zeros) >> 4;
}

// Of a wide row: the element that an eighth begins at. Rows count from a multiple of 1 KB.
__device__ int place(int row, int eighth) {
  return (eighth ^ row % 8) * 8;
}

// sum (64 x 224, 112 values a thread) = or += a (64 x 16) * b (16 x 224). Runs on until finish_products.
__device__ void multiply(float (&sum)[112], std::uint64_t a, std::uint64_t b, int add) {
#define EIGHT(i)                                                                                          \
  "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), "+f"(sum[i + 5]), \
      "+f"(sum[i + 6]), "+f"(sum[i + 7])
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %114, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n224k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "
      "%59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, "
      "%78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, "
      "%97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111}, %112, "
      "%113, add, 1, 1, 0, 0;\n}"
      : EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24), EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56), EIGHT(64), EIGHT(72),
        EIGHT(80), EIGHT(88), EIGHT(96), EIGHT(104)
      : "l"(a), "l"(b), "r"(add));
#undef EIGHT
}

__device__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

__device__ void finish_products() {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// sum (16 x 8) += a (16 x 16) * b (16 x 8), of one warp.
__device__ void multiply_small(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four blocks of 8 rows x 16 bytes from the registers that products are in; each lane says where one row
// goes.
__device__ void store_four(void* at, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(at)), "r"(a),
               "r"(b), "r"(c), "r"(d)
               : "memory");
}

/* classes STAT DYN ABSENT: the C++ classes. */
#include "bmruntime_cpp.h"
using namespace bmruntime;

int main(int argc, char **argv) {
    Context ctx;
    CHECK(argc == 4 && ctx.handle() != NULL);
    CHECK(ctx.load_bmodel(argv[1]) == BM_SUCCESS && ctx.load_bmodel(argv[2]) == BM_SUCCESS);
    CHECK(ctx.load_bmodel(argv[3]) == BM_ERR_FAILURE && ctx.load_bmodel("x", 1) == BM_ERR_FAILURE);
    std::vector<const char *> names(5);
    ctx.get_network_names(&names);
    CHECK(ctx.get_network_number() == 2 && names.size() == 2 && std::string(names[1]) == "dyn");
    Network any(ctx, "dyn"), fixed(ctx, "stat", 0), second(ctx, "stat", 0);
    CHECK(any.info()->is_dynamic && any.Inputs().size() == 2 && any.Outputs().size() == 2);
    CHECK(any.Forward() == BM_ERR_FAILURE); /* not reshaped */
    std::vector<float> a(60), b(12), y(60), z(12);
    for (int i = 0; i < 60; i++) a[i] = 0.5f * i;
    for (int i = 0; i < 12; i++) b[i] = 3.0f - i;
    CHECK(any.Inputs()[0]->Reshape({3, {2, 3, 5}}) == BM_SUCCESS && any.Inputs()[1]->Reshape({2, {1, 6}}) == 0);
    CHECK(any.Inputs()[0]->Reshape({3, {9, 3, 5}}) == BM_ERR_NOMEM);
    CHECK(any.Inputs()[0]->Reshape({3, {0, 3, 5}}) == BM_ERR_PARAM);
    CHECK(any.Inputs()[0]->ByteSize() == 120 && Count(*any.Inputs()[0]) == 30);
    CHECK(any.Inputs()[0]->CopyFrom(a.data()) == BM_SUCCESS && any.Inputs()[1]->CopyFrom(b.data()) == BM_SUCCESS);
    CHECK(any.Forward() == BM_SUCCESS);
    CHECK(any.Outputs()[0]->ByteSize() == 120 && any.Outputs()[1]->num_elements() == 6);
    CHECK(any.Outputs()[0]->CopyTo(y.data()) == BM_SUCCESS && any.Output("z")->CopyTo(z.data()) == BM_SUCCESS);
    for (int i = 0; i < 30; i++) CHECK(y[i] == 1.5f * a[i]);
    for (int i = 0; i < 6; i++) CHECK(z[i] == -2.0f * b[i]);
    CHECK(any.Outputs()[0]->CopyTo(y.data(), 8, 116) == BM_ERR_PARAM);
    CHECK(any.Outputs()[0]->CopyTo(y.data(), 4, 116) == BM_SUCCESS && y[0] == 1.5f * a[29]);
    CHECK(any.Input("c") == NULL);
    /* a Network of one stage; the other on the same net has other tensors */
    CHECK(fixed.Inputs()[0]->Reshape({3, {4, 3, 5}}) == BM_ERR_NOFEATURE);
    CHECK(second.Input("a")->CopyFrom(std::vector<float>(60).data()) == BM_SUCCESS);
    CHECK(fixed.Input("a")->CopyFrom(a.data()) == BM_SUCCESS && fixed.Input("b")->CopyFrom(b.data()) == BM_SUCCESS);
    bm_device_mem_t mine;
    CHECK(bm_malloc_device_byte(ctx.handle(), &mine, 240) == BM_SUCCESS);
    bm_mem_set_device_size(&mine, 239);
    CHECK(fixed.Output("y")->set_device_mem(mine) == BM_ERR_PARAM);
    bm_mem_set_device_size(&mine, 240);
    CHECK(fixed.Output("y")->set_device_mem(mine) == BM_SUCCESS && fixed.Forward(false) == BM_SUCCESS);
    CHECK(bm_thread_sync(ctx.handle()) == BM_SUCCESS && bm_memcpy_d2s(ctx.handle(), y.data(), mine) == BM_SUCCESS);
    for (int i = 0; i < 60; i++) CHECK(y[i] == 1.5f * a[i]);
    CHECK(ByteSize(mine) == 240 && ByteSize(*fixed.Output("y")->tensor()) == 240 && ByteSize(BM_UINT16) == 2);
    bm_free_device(ctx.handle(), mine);
    int thrown = 0;
    try { Network(ctx, "absent"); } catch (const std::runtime_error &) { thrown++; }
    try { Network(ctx, "dyn", 1); } catch (const std::runtime_error &) { thrown++; }
    try { Context(64); } catch (const std::runtime_error &) { thrown++; }
    try { Context((bm_handle_t)NULL); } catch (const std::runtime_error &) { thrown++; }
    CHECK(thrown == 4);
    Context(ctx.handle()).trace();
    printf("ok\n");
    return 0;
}

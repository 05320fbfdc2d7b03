/* A shared object that is no system plugin. */
int nothing(void);

int nothing(void)
{
    return 0;
}
